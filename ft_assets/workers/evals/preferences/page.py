"""The report page's section on judges: how often each answer was preferred, and on which prompts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ft_assets.workers.evals.agreement import Agreement, in_words
from ft_assets.workers.evals.preferences.judged_pairs import Judged, Preferences
from ft_assets.workers.evals.preferences.prompt import ORDERS

Row = TypeVar("Row")
MAX_EXAMPLES = 20
_MAX_TEXT = 1200


def judges_section(judges: Sequence[Preferences], agree: Agreement | None) -> Markup:
    """HTML, everything escaped; empty without a judge."""
    if not judges:
        return Markup("")
    return render(
        Path(__file__).with_name("judges.html"),
        judges=[each.evidence() for each in judges],
        agree=in_words(agree) if agree else "",
        examples=_examples(judges),
        said=_said,
    )


def render(template: Path, **values: Any) -> Markup:
    """A template's HTML, every value escaped; texts are cut to 1,200 characters by ``short``."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["short"] = lambda text: text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"
    environment.filters["percent"] = lambda share: "–" if share is None else f"{share:.1%}"
    return Markup(environment.from_string(template.read_text(encoding="utf-8")).render(**values))


def _examples(judges: Sequence[Preferences]) -> list[tuple[str, list[tuple[Judged, ...]]]]:
    rows = list(zip(*(each.judged for each in judges), strict=True))
    found = {
        "Prompts where the judge prefers the base": [row for row in rows if row[0].result == "loss"],
        "Prompts where the judge prefers the candidate": [row for row in rows if row[0].result == "win"],
        "Prompts where the two judges disagree": [row for row in rows if row[0].result != row[-1].result],
        "Prompts where the judge's verdict depends on the order": [
            row
            for row in rows
            if row[0].win is not None and row[0].preference("candidate_first") != row[0].preference("base_first")
        ],
        "Prompts without a verdict": [row for row in rows if row[0].result == "none"],
    }
    return [titled(title, shown, MAX_EXAMPLES) for title, shown in found.items() if shown]


def titled(title: str, rows: list[Row], most: int) -> tuple[str, list[Row]]:
    """A table's title with the number of rows, and the first ``most`` of them."""
    note = f", {most} shown" if len(rows) > most else ""
    return f"{title} ({len(rows)}{note})", rows[:most]


def _said(judged: Judged) -> str:
    words = {1.0: "candidate", 0.5: "tie", 0.0: "base"}
    said = []
    for order in ORDERS:
        preference = judged.preference(order)
        first = order.replace("_", " ")
        said.append(f"{first}: {judged.problem(order) if preference is None else words[preference]}")
    return "; ".join(said)
