"""Check uploads before they are stored: data form and number of distinct rows."""

from collections.abc import Sequence

from ft_assets.settings.dataset.policy import MIN_EXAMPLES, DatasetPolicy
from ft_assets.workers.datasets.forms.content_keys import content_keys
from ft_assets.workers.datasets.forms.parse import FormSettings, parse_lines
from ft_assets.workers.datasets.intake.chunking import chunks
from ft_assets.workers.datasets.intake.spool import Spool
from ft_assets.workers.datasets.reading import ROLES, Reading
from ft_assets.workers.datasets.reporting.acceptance import check_rows
from ft_assets.workers.datasets.reporting.report import DatasetReport, SplitNumbers, Upload
from ft_assets.workers.datasets.split import SIDES
from ft_resources.errors import BadData


def check_uploads(spools: Sequence[Spool], policy: DatasetPolicy) -> int:
    """The number of rows of ``spools``, read in one pass and in bounded memory.

    Raises BadData for bad rows beyond what the policy allows, for rows of different kinds of data, and for fewer than
    100 different examples.
    """
    form = FormSettings.of(policy)
    reading = Reading()
    different: set[bytes] = set()
    for spool in sorted(spools, key=lambda each: list(ROLES).index(each.role)):
        rows = 0
        for chunk in chunks(spool):
            parsed = parse_lines(chunk.lines, form, ended=chunk.ended)
            rows += reading.add_parsed(spool, chunk.first_row, chunk.too_long, parsed)
            if len(different) < MIN_EXAMPLES:
                different.update(content_keys(parsed.examples).unique()[:MIN_EXAMPLES].to_pylist())
        reading.uploads.append(
            Upload(
                name=spool.name, role=ROLES[spool.role], size=spool.source_size, sha256=spool.source_sha256, rows=rows
            )
        )
    check_rows(
        DatasetReport(
            uploads=reading.uploads,
            policy=policy,
            form="",
            rows_read=reading.rows,
            steps=[reading.step],
            splits={side.value: SplitNumbers() for side in SIDES},
        )
    )
    if reading.kind and len(different) < MIN_EXAMPLES:
        bad = reading.bad.total()
        again = reading.rows - bad - len(different)
        less = [f"{bad} bad"] if bad else []
        less += [f"{again} duplicates"] if again else []
        raise BadData(
            f"{len(different)} different examples are too few to learn from and to measure on"
            + (f" ({reading.rows} rows, of which {' and '.join(less)})" if less else ""),
            where=reading.uploads[0].name,
            remedy=f"Add examples: at least {MIN_EXAMPLES} different ones are needed.",
        )
    return reading.rows
