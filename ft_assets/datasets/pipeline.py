"""The steps of curation in their order: read, recognise, drop duplicates, split. One pass, one row at a time."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ft_assets.datasets.acceptance import accept
from ft_assets.datasets.dedup import FirstRows, content_key
from ft_assets.datasets.policy import DatasetPolicy
from ft_assets.datasets.readers import read_rows
from ft_assets.datasets.report import DatasetReport, Upload
from ft_assets.datasets.rows import BadRow, Example, RawRow, RowProblem
from ft_assets.datasets.schema import to_example
from ft_assets.datasets.split import Split, split_of
from ft_assets.datasets.tally import Tally


def curate_rows(
    rows: Iterable[RawRow | BadRow], policy: DatasetPolicy, tally: Tally
) -> Iterator[tuple[Split, Example]]:
    """The examples to keep, in the upload's order, each with its side; ``tally`` learns about every row."""
    seen = FirstRows()
    for raw in rows:
        tally.rows += 1
        if isinstance(raw, BadRow):
            tally.bad(raw)
            continue
        try:
            example = to_example(raw, policy.split.group_by)
        except RowProblem as bad:
            tally.bad(BadRow(row=raw.row, field=bad.field, reason=bad.reason, problem=bad.problem))
            continue
        key = content_key(example.messages)
        kept = seen.first(key, raw.row)
        if kept != raw.row:
            tally.duplicate(raw.row, kept)
            continue
        split = split_of(key, example.group, policy.split)
        tally.keep(example, split)
        yield split, example


def curate_file(
    path: Path, upload: Upload, policy: DatasetPolicy, keep: Callable[[Split, Example], None], tally: Tally
) -> DatasetReport:
    """Curate the file at ``path``, hand every example to ``keep``, and report.

    Raises BadData where the upload must not be used; what ``keep`` got until then is worth nothing.
    """
    for split, example in curate_rows(read_rows(path, upload.name), policy, tally):
        keep(split, example)
    return accept(tally.report(upload, policy))


def check_file(path: Path, upload: Upload, policy: DatasetPolicy) -> DatasetReport:
    """``curate_file`` that keeps nothing: whether an upload would be accepted, before it is stored."""
    return curate_file(path, upload, policy, lambda _split, _example: None, Tally())
