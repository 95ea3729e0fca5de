"""Whether a curated upload is good enough to train on: what refuses it, and what only deserves a warning."""

from ft_assets.datasets.policy import MIN_EXAMPLES
from ft_assets.datasets.report import DatasetReport
from ft_assets.datasets.rows import Reason
from ft_assets.datasets.split import Split
from ft_resources.errors import BadData

# Below this many rows, one row more or less changes a score by over ten points.
SMALL_SPLIT = 10
_MUCH_DUPLICATED = 0.2
_DOMINANT_GROUP = 0.5


def accept(report: DatasetReport) -> DatasetReport:
    """``report`` with its warnings. Raises BadData, naming the file, rows and remedy, where it must not be used."""
    _check_rows(report)
    _check_size(report)
    for split in Split:
        if not report.splits[split].rows:
            raise BadData(
                f"the {split} split is empty: none of {_units(report)} fell into it",
                where=report.upload.name,
                remedy=_split_advice(report, split),
            )
    return report.model_copy(update={"warnings": _warnings(report)})


def _check_rows(report: DatasetReport) -> None:
    policy, bad = report.policy, report.bad_count
    if not report.rows_read:
        raise BadData("the file has no rows", where=report.upload.name, remedy="Upload a file with examples in it.")
    if not bad or (policy.on_bad_row == "drop" and bad <= policy.max_dropped_share * report.rows_read):
        return
    first = min(report.bad_rows, key=lambda row: row.row)
    if policy.on_bad_row == "drop":
        raise BadData(
            f"{bad} of {report.rows_read} rows are bad, more than max_dropped_share ({policy.max_dropped_share:g}) "
            f"allows; the first is {first.where}: {first.problem}",
            where=report.upload.name,
            remedy="Correct the rows, or raise max_dropped_share in dataset.yaml.",
        )
    raise BadData(
        first.problem + _others(report, first.row),
        where=f"{report.upload.name}, {first.where}",
        remedy="Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml.",
    )


def _others(report: DatasetReport, first: int) -> str:
    """How many further rows are bad, and the numbers of the next three."""
    others = sorted(row.row for row in report.bad_rows if row.row != first)
    if not others:
        return ""
    named = ", ".join(str(row) for row in others[:3]) + (", …" if len(others) > 3 else "")
    count = report.bad_count - 1
    return f" ({count} more bad {'row' if count == 1 else 'rows'}: {named})"


def _check_size(report: DatasetReport) -> None:
    if report.examples >= MIN_EXAMPLES:
        return
    less = [f"{report.bad_count} bad"] if report.bad_count else []
    if duplicates := report.dropped.get(Reason.DUPLICATE, 0):
        less.append(f"{duplicates} duplicates")
    raise BadData(
        f"{report.examples} different examples are too few to learn from and to measure on"
        + (f" ({report.rows_read} rows, of which {' and '.join(less)})" if less else ""),
        where=report.upload.name,
        remedy=f"Add examples: at least {MIN_EXAMPLES} different ones are needed.",
    )


def _warnings(report: DatasetReport) -> list[str]:
    """Sentences for the tenant, each with its advice."""
    found = []
    for split in Split:
        rows = report.splits[split].rows
        if rows < SMALL_SPLIT:
            found.append(
                f"The {split} split has only {rows} {'row' if rows == 1 else 'rows'}; numbers measured on so few "
                f"mean little. {_split_advice(report, split)}"
            )
    duplicates = report.dropped.get(Reason.DUPLICATE, 0)
    if duplicates > _MUCH_DUPLICATED * report.rows_read:
        found.append(
            f"{duplicates / report.rows_read:.0%} of the rows repeat an earlier row and were left out. If some "
            "examples were repeated to weigh more, that has no effect here."
        )
    if report.largest_group_rows > _DOMINANT_GROUP * report.examples:
        found.append(
            f"One value of {report.policy.split.group_by!r} holds {report.largest_group_rows / report.examples:.0%} of "
            "the rows, so the split's shares are far from those asked for. Group by a finer field."
        )
    if len(report.schemas) > 1:
        found.append(f"The rows come in {len(report.schemas)} forms ({', '.join(report.schemas)}). Was this intended?")
    return found


def _split_advice(report: DatasetReport, split: Split) -> str:
    """What to change in dataset.yaml so that ``split`` gets (more) rows."""
    settings = report.policy.split
    if split is Split.TRAIN:
        share = f"Lower split.validation ({settings.validation:g}) or split.holdout ({settings.holdout:g})"
    else:
        share = f"Raise split.{split} ({getattr(settings, split):g})"
    if settings.group_by:
        return f"{share}, or set split.group_by ({settings.group_by}) to a field with more different values."
    return f"{share} in dataset.yaml, or add examples."


def _units(report: DatasetReport) -> str:
    settings = report.policy.split
    if settings.group_by:
        groups = sum(numbers.groups for numbers in report.splits.values())
        return f"the {groups} {'group' if groups == 1 else 'groups'} ({settings.group_by})"
    return f"the {report.examples} examples"
