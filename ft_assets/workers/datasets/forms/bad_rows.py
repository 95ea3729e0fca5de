"""The rows that cannot be used: all are counted, and of each reason the first ones are kept."""

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa

from ft_assets.workers.datasets.columns import BAD_ROWS, LISTED_BAD
from ft_assets.workers.datasets.forms.reasons import RowProblem


@dataclass(kw_only=True, slots=True)
class BadRows:
    """Bad rows in their order. Memory does not grow with their number: a report lists no more of them either."""

    counts: Counter[str] = field(default_factory=Counter)
    _listed: list[dict[str, object]] = field(default_factory=list)

    def add(self, row: int, problem: RowProblem) -> None:
        """Count the row with this number for ``problem``."""
        reason = problem.reason.value
        if self.counts[reason] < LISTED_BAD:
            self._listed.append({"row": row, "reason": reason, "field": problem.field, "problem": problem.problem})
        self.counts[reason] += 1

    def listed(self) -> pa.RecordBatch:
        """The first LISTED_BAD of each reason, in BAD_ROWS."""
        return pa.RecordBatch.from_pylist(self._listed, schema=BAD_ROWS)
