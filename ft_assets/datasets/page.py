"""The validation report as a page that a tenant reads: one self-contained HTML file, everything in it escaped."""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from ft_assets.datasets.report import DatasetReport
from ft_assets.datasets.rows import REASONS, Example, Reason
from ft_assets.datasets.split import Split

_SHOWN_CHARACTERS = 600
_SHOWN_TURNS = 6
_SHOWN_BAD_ROWS = 50
_SHOWN_DUPLICATES = 20


def render_page(report: DatasetReport, samples: Sequence[Example]) -> str:
    """The page. ``samples`` are shown in full (up to 600 characters a turn), so it belongs in the tenant's prefix."""
    counts = report.length_histogram.counts
    listed = sorted(report.bad_rows, key=lambda row: row.row)
    return _template().render(
        report=report,
        title=report.upload.name,
        dropped=[
            (REASONS[Reason(reason)], count, _rows_of(report, reason)) for reason, count in report.dropped.items()
        ],
        bad_rows=listed[:_SHOWN_BAD_ROWS],
        bad_rows_left=report.bad_count - len(listed[:_SHOWN_BAD_ROWS]),
        splits=[(split.value, report.splits[split], _MEANING[split]) for split in Split],
        kinds=sorted({kind for numbers in report.splits.values() for kind in numbers.kinds}),
        bars=[
            (low, high, count, count / max(counts))
            for (low, high), count in zip(pairwise(report.length_histogram.edges), counts, strict=True)
        ],
        samples=samples,
        cut=_cut,
        shown_turns=_SHOWN_TURNS,
    )


_MEANING = {
    Split.TRAIN: "what the model learns from",
    Split.VALIDATION: "what training watches its loss on",
    Split.HOLDOUT: "what only the final evaluation sees",
}


def row_ranges(rows: Iterable[int]) -> str:
    """Row numbers for reading: ``[3, 4, 5, 9]`` is ``3–5, 9``."""
    ranges: list[list[int]] = []
    for row in sorted(rows):
        if ranges and row == ranges[-1][1] + 1:
            ranges[-1][1] = row
        else:
            ranges.append([row, row])
    return ", ".join(f"{low:,}" if low == high else f"{low:,}–{high:,}" for low, high in ranges)


def _rows_of(report: DatasetReport, reason: str) -> str:
    """The listed rows of one reason, with an ellipsis where there are more; a duplicate comes with the row kept."""
    if reason == Reason.DUPLICATE:
        shown = report.duplicates[:_SHOWN_DUPLICATES]
        text, count = ", ".join(f"{pair.row:,} (same as {pair.kept_row:,})" for pair in shown), len(shown)
    else:
        rows = [bad.row for bad in report.bad_rows if bad.reason == reason]
        text, count = row_ranges(rows), len(rows)
    return text + (", …" if count < report.dropped[reason] else "")


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + " …"


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("ft_assets.datasets", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = lambda value: f"{value:,}"
    environment.filters["percent"] = lambda value: f"{value:.1%}"
    environment.filters["size"] = _size
    return environment.get_template("report.html.jinja")


def _size(count: int) -> str:
    """Bytes for people: ``12.3 KB``, ``4.0 MB``."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"
