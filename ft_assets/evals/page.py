"""The report page a person reads: numbers with their intervals, and the answers that changed, side by side.

It holds row text, so it lives below the tenant's prefix; it loads nothing from elsewhere and everything is escaped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ft_assets.evals.agreement import in_words
from ft_assets.evals.comparison import HoldoutComparison
from ft_assets.evals.evidence import Evidence, MetricEvidence
from ft_assets.evals.power import minimum_detectable
from ft_assets.evals.preferences.comparison import Preferences
from ft_assets.evals.preferences.page import judges_section
from ft_assets.evals.safety import Compared
from ft_assets.evals.safety_suite import Kind
from ft_assets.evals.score import Said
from ft_assets.evals.suite_comparison import ComparedSuite

MAX_EXAMPLES = 50
_MAX_TEXT = 1200
_WIDTH, _HEIGHT, _MARGIN = 240, 34, 12


@dataclass(frozen=True, kw_only=True)
class Page:
    """What the page shows. ``label`` names the pair; ``safety`` is of a safety suite, harmful prompts and safe ones.

    ``judges`` are what the judges said."""

    label: str
    evidence: Evidence
    comparison: HoldoutComparison
    safety: Sequence[Compared] = ()
    suites: Sequence[ComparedSuite] = ()
    judges: Sequence[Preferences] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A row that one model answers better than the other, or None for one without a right answer; texts may be
    shortened."""

    question: str
    target: str
    base: str
    candidate: str
    base_right: bool | None


def evaluation_page(page: Page) -> str:
    """A self-contained HTML page."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
    flips = flipped(page.comparison)
    won, lost = [f for f in flips if not f.base_right], [f for f in flips if f.base_right]
    # Losses are shown as amply as gains: a report that hides them is an advertisement.
    shown_lost = lost[: max(MAX_EXAMPLES // 2, MAX_EXAMPLES - len(won))]
    shown_won = won[: MAX_EXAMPLES - len(shown_lost)]
    return template.render(
        label=page.label,
        evidence=page.evidence,
        examples=[
            (_title("Rows only the candidate answers rightly", shown_won, won), shown_won),
            (_title("Rows only the base answers rightly", shown_lost, lost), shown_lost),
            *(shown for compared in page.safety for shown in flipped_prompts(compared)),
            *(shown for suite in page.suites for shown in flipped_items(suite)),
        ],
        judges=judges_section(page.judges, page.evidence.judges_agree),
        in_words=in_words,
        score=_score,
        percent=_percent,
        improvement=_improvement,
        p_value=_p_value,
        tone=_tone,
        tones={True: ("right", "wrong"), False: ("wrong", "right"), None: ("", "")},
        whisker=whisker,
        detectable=_detectable,
    )


def flipped(comparison: HoldoutComparison) -> list[Example]:
    """Rows whose exact match differs between base and candidate, in the rows' (hashed) order."""
    before, after = comparison.matches(comparison.base), comparison.matches(comparison.candidate)
    return [
        Example(
            question=_short(row.question),
            target=_short(row.target),
            base=_short(base.answer),
            candidate=_short(candidate.answer),
            base_right=bool(was),
        )
        for row, base, candidate, was, now in zip(
            comparison.rows, comparison.base, comparison.candidate, before, after, strict=True
        )
        if was != now
    ]


_SAFETY_WORDS: dict[Kind, tuple[str, str]] = {
    "harmful": ("Harmful prompts that only the {} refuses", "a refusal"),
    "benign": ("Safe prompts that only the {} does not refuse", "an answer"),
}


def flipped_prompts(compared: Compared) -> list[tuple[str, list[Example]]]:
    """Prompts that one model refuses and the other does not, those where the candidate does worse first."""
    title, target = _SAFETY_WORDS[compared.kind]
    wanted = int(compared.kind == "harmful")
    found: dict[str, list[Example]] = {"base": [], "candidate": []}
    rows = zip(compared.base.prompts, compared.base.answers, compared.candidate.answers, strict=True)
    judged = zip(compared.base.refused, compared.candidate.refused, strict=True)
    for (prompt, base, candidate), (was, now) in zip(rows, judged, strict=True):
        if was != now:
            texts = {"question": _short(prompt.text), "base": _short(base), "candidate": _short(candidate)}
            found["base" if was == wanted else "candidate"].append(
                Example(**texts, target=target, base_right=was == wanted)
            )
    shown = {who: flips[:MAX_EXAMPLES] for who, flips in found.items()}
    return [(_title(title.format(who), shown[who], flips), shown[who]) for who, flips in found.items()]


def flipped_items(suite: ComparedSuite) -> list[tuple[str, list[Example]]]:
    """Items of a suite on which the candidate scores lower than the base, those on which it scores higher, and prompts
    without a right answer."""
    worse: list[Example] = []
    better: list[Example] = []
    for said, answer, was, now in suite.items():
        if was != now:
            (worse if now < was else better).append(_example(said, answer, base_right=now < was))
    others = [_example(said, suite.base_shown.get(name), base_right=None) for name, said in suite.score.shown.items()]
    titles = (
        (f"{suite.key}: items on which the candidate is worse", worse),
        (f"{suite.key}: items on which the candidate is better", better),
        (f"{suite.key}: answers side by side", others),
    )
    return [(_title(text, found[:MAX_EXAMPLES], found), found[:MAX_EXAMPLES]) for text, found in titles if found]


def _example(said: Said, base: str | None, *, base_right: bool | None) -> Example:
    texts = (said.question, said.target, base or "", said.answer)
    question, target, before, after = (_short(text) for text in texts)
    return Example(question=question, target=target, base=before, candidate=after, base_right=base_right)


def whisker(interval: tuple[float, float], value: float, scale: float, unit: str) -> Markup:
    """An interval as a line with its estimate as a dot, on an axis that always shows zero (inline SVG)."""
    low, high, value = interval[0] * scale, interval[1] * scale, value * scale
    left, right = min(low, 0.0), max(high, 0.0)
    span = (right - left) or 1.0

    def x(number: float) -> float:
        return _MARGIN + (number - left) / span * (_WIDTH - 2 * _MARGIN)

    colour = {"good": "var(--good)", "bad": "var(--bad)", "": "var(--candidate)"}[_tone((low, high))]
    return Markup(
        '<svg width="{width}" height="{height}" role="img" aria-label="{words}">'
        '<line x1="{zero:.1f}" x2="{zero:.1f}" y1="2" y2="18" stroke="var(--soft)" stroke-dasharray="2 2"/>'
        '<line x1="{low:.1f}" x2="{high:.1f}" y1="10" y2="10" stroke="{colour}" stroke-width="3" '
        'stroke-linecap="round"/><circle cx="{dot:.1f}" cy="10" r="4.5" fill="{colour}"/>'
        '<text x="{middle}" y="31" text-anchor="middle">{words}</text></svg>'
    ).format(
        width=_WIDTH,
        height=_HEIGHT,
        zero=x(0.0),
        low=x(low),
        high=x(high),
        dot=x(value),
        middle=_WIDTH // 2,
        colour=colour,
        words=f"{_signed(low)} to {_signed(high)}{unit}",
    )


def _title(text: str, shown: list[Example], everything: list[Example]) -> str:
    return f"{text} ({len(everything)}{f', {len(shown)} shown' if len(shown) < len(everything) else ''})"


def _short(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"


def _percent(share: float) -> str:
    return f"{share:.1%}"


def _score(value: float, is_share: bool) -> str:
    return _percent(value) if is_share else f"{value:.4g}"


def _improvement(metric: MetricEvidence) -> str:
    text = f"{100 * metric.improvement:+.1f}" if metric.higher_is_better else f"{metric.improvement:+.3g}"
    return text if metric.relative_gain is None or metric.higher_is_better else f"{text} ({metric.relative_gain:+.1%})"


def _detectable(interval: tuple[float, float], scale: float, unit: str) -> str:
    return f"±{scale * minimum_detectable((interval[1] - interval[0]) / 2):.2g}{unit}"


def _p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _tone(interval: tuple[float, float]) -> str:
    """``good`` or ``bad`` where the whole interval lies on one side of zero."""
    if interval[0] > 0:
        return "good"
    return "bad" if interval[1] < 0 else ""


def _signed(number: float) -> str:
    return f"{number:+.3g}"
