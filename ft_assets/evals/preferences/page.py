"""The part of the report page on judges: how often each answer was preferred, and the prompts behind it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ft_assets.evals.agreement import Agreement, in_words
from ft_assets.evals.preferences.comparison import ORDERS, Judged, Preferences

MAX_EXAMPLES = 20
_MAX_TEXT = 1200


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A prompt with both answers and what the judges made of them, a line each; texts may be shortened."""

    question: str
    base: str
    candidate: str
    judges: Sequence[str]


def judges_section(judges: Sequence[Preferences], agree: Agreement | None) -> Markup:
    """HTML, everything escaped; empty where nobody judged."""
    if not judges:
        return Markup("")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(Path(__file__).with_name("judges.html").read_text(encoding="utf-8"))
    html = template.render(
        judges=[each.evidence() for each in judges],
        agree=in_words(agree) if agree else "",
        examples=[found for found in _examples(judges) if found[1]],
        percent=lambda share: "–" if share is None else f"{share:.1%}",
    )
    # The template escapes what it is given.
    return Markup(html)


def _examples(judges: Sequence[Preferences]) -> Iterator[tuple[str, list[Shown]]]:
    first = judges[0].judged
    rows = list(zip(*(each.judged for each in judges), strict=True))
    yield _titled("Prompts on which the judge prefers the base", [r for r in rows if r[0].result == "loss"])
    yield _titled("Prompts on which the judge prefers the candidate", [r for r in rows if r[0].result == "win"])
    if len(judges) > 1:
        yield _titled("Prompts on which the two judges differ", [r for r in rows if r[0].result != r[1].result])
    torn = [
        row
        for row, each in zip(rows, first, strict=True)
        if each.win is not None and each.preference("candidate_first") != each.preference("base_first")
    ]
    yield _titled("Prompts on which the judge contradicts itself", torn)
    yield _titled("Prompts without a verdict", [row for row in rows if row[0].result == "none"])


def _titled(title: str, rows: Sequence[tuple[Judged, ...]]) -> tuple[str, list[Shown]]:
    note = f", {MAX_EXAMPLES} shown" if len(rows) > MAX_EXAMPLES else ""
    return f"{title} ({len(rows)}{note})", [_shown(row) for row in rows[:MAX_EXAMPLES]]


def _shown(row: tuple[Judged, ...]) -> Shown:
    contest = row[0].contest
    question = contest.conversation[-1][1] if contest.conversation else ""
    return Shown(
        question=_short(question),
        base=_short(contest.base),
        candidate=_short(contest.candidate),
        judges=[_said(judged) for judged in row],
    )


def _said(judged: Judged) -> str:
    words = {1.0: "candidate", 0.5: "tie", 0.0: "base"}
    said = []
    for order in ORDERS:
        preference = judged.preference(order)
        first = order.replace("_", " ")
        said.append(f"{first}: {judged.problem(order) if preference is None else words[preference]}")
    return "; ".join(said)


def _short(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"
