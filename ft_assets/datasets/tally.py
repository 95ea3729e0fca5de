"""Counts what curation does, row by row, in memory that does not grow with the texts."""

from collections import Counter

from ft_assets.datasets.policy import DatasetPolicy
from ft_assets.datasets.report import DatasetReport, Duplicate, LengthHistogram, SplitNumbers, Upload
from ft_assets.datasets.rows import BadRow, Example, Reason
from ft_assets.datasets.split import Split

# The report lists this many rows by number for each reason; beyond it, it counts.
LISTED_ROWS = 200
SHOWN_EXAMPLES = 3
# A field or kind with a value of its own in every row says nothing, and would make the report as long as the upload.
_COUNTED_FIELDS = 50
_COUNTED_KINDS = 12


class Tally:
    """Filled by ``curate_rows``; ``report`` is what it found."""

    def __init__(self) -> None:
        self.rows = 0
        self.samples: list[Example] = []
        self._bad: Counter[Reason] = Counter()
        self._bad_rows: list[BadRow] = []
        self._duplicates = 0
        self._duplicate_rows: list[Duplicate] = []
        self._schemas: Counter[str] = Counter()
        self._unused: Counter[str] = Counter()
        self._groups: dict[str, tuple[Split, int]] = {}
        self._splits = {split: Counter[str]() for split in Split}
        self._characters: Counter[Split] = Counter()
        self._lengths: Counter[int] = Counter()

    def bad(self, bad: BadRow) -> None:
        """A row that cannot be used."""
        self._bad[bad.reason] += 1
        if self._bad[bad.reason] <= LISTED_ROWS:
            self._bad_rows.append(bad)

    def duplicate(self, row: int, kept: int) -> None:
        """A row that repeats the earlier row ``kept``."""
        self._duplicates += 1
        if self._duplicates <= LISTED_ROWS:
            self._duplicate_rows.append(Duplicate(row=row, kept_row=kept))

    def keep(self, example: Example, split: Split) -> None:
        """A row that goes to ``split``."""
        self._schemas[example.schema] += 1
        for field in example.unused:
            if field in self._unused or len(self._unused) < _COUNTED_FIELDS:
                self._unused[field] += 1
        self._splits[split][example.kind] += 1
        self._characters[split] += example.characters
        self._lengths[example.characters.bit_length()] += 1
        if example.group:
            self._groups[example.group] = (split, self._groups.get(example.group, (split, 0))[1] + 1)
        if split is Split.TRAIN and len(self.samples) < SHOWN_EXAMPLES:
            self.samples.append(example)

    def report(self, upload: Upload, policy: DatasetPolicy) -> DatasetReport:
        """Everything that was counted; ``warnings`` are still empty (see ``acceptance``)."""
        dropped = {**self._bad, **({Reason.DUPLICATE: self._duplicates} if self._duplicates else {})}
        groups = Counter(split for split, _ in self._groups.values())
        all_kinds = {kind for kinds in self._splits.values() for kind in kinds if kind}
        named = all_kinds if len(all_kinds) <= _COUNTED_KINDS else set()
        return DatasetReport(
            upload=upload,
            policy=policy,
            rows_read=self.rows,
            schemas=dict(sorted(self._schemas.items())),
            unused_fields=dict(sorted(self._unused.items())),
            dropped={reason.value: count for reason, count in sorted(dropped.items())},
            bad_rows=self._bad_rows,
            duplicates=self._duplicate_rows,
            splits={
                split.value: SplitNumbers(
                    rows=kinds.total(),
                    characters=self._characters[split],
                    groups=groups[split],
                    kinds={kind: kinds[kind] for kind in sorted(named) if kind in kinds},
                )
                for split, kinds in self._splits.items()
            },
            largest_group_rows=max((rows for _, rows in self._groups.values()), default=0),
            length_histogram=self._histogram(),
        )

    def _histogram(self) -> LengthHistogram:
        """Bins [2^k, 2^(k+1)): ``bit_length`` b of a length n says 2^(b-1) <= n < 2^b."""
        if not self._lengths:
            return LengthHistogram(edges=[], counts=[])
        bins = range(min(self._lengths), max(self._lengths) + 1)
        return LengthHistogram(
            edges=[1 << (b - 1) for b in bins] + [1 << bins[-1]], counts=[self._lengths[b] for b in bins]
        )
