"""Answers that are labels, as in a classification: a few short ones, each in many rows."""

import re
from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ft_assets.workers.datasets.reporting.report import LISTED_LABELS, Labels

_MOST_CHARACTERS = 60
# Answers are labels if this share of them is short, and a label has this many rows on average.
_SHORT, _ROWS = 0.95, 5
# More different answers are not labels, and are not counted further.
_MOST = 2000
_BETWEEN_WORDS = re.compile(r"(?<=\w)[\s_-]+(?=\w)")
# Without signs, as they may be the only difference: -1, C++, C#.
_AROUND = " \t\n.,;:!?'\"`()[]_"


class LabelCounts:
    """The last answers of a dataset's own conversations, counted batch by batch."""

    def __init__(self) -> None:
        self._rows = 0
        self._short: Counter[str] = Counter()

    def add(self, rows: pa.RecordBatch) -> None:
        """Count the last turns of ``rows``."""
        self._rows += rows.num_rows
        if len(self._short) > _MOST:
            return
        messages = rows.column("messages")
        turns, chosen, rejected = (
            np.asarray(pc.list_value_length(rows.column(name))) for name in ("messages", "chosen", "rejected")
        )
        offsets = np.asarray(messages.offsets)
        # Where there are chosen or rejected answers, the last turn of the messages is the question.
        last = (offsets[1:] - offsets[0] - 1)[(turns > 0) & (chosen + rejected == 0)]
        answers = messages.flatten().field("content").take(pa.array(last))
        counted = answers.filter(pc.less_equal(pc.utf8_length(answers), _MOST_CHARACTERS)).value_counts()
        pairs = zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True)
        self._short.update({answer: count for answer, count in pairs if answer})

    def numbers(self) -> Labels | None:
        """Numbers about the labels; None if the answers are not labels."""
        counts, different = self._short, len(self._short)
        if not 2 <= different <= _MOST or counts.total() < max(_SHORT * self._rows, _ROWS * different):
            return None
        alike: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for label, count in _largest_first(counts):
            alike[_folded(label)][label] = count
        variants = [group for group in alike.values() if len(group) > 1]
        # A rare second spelling is not a rare label.
        once = [label for group in alike.values() if sum(group.values()) == 1 for label in group]
        return Labels(
            rows=self._rows,
            different=different,
            counts=dict(_largest_first(counts)[:LISTED_LABELS]),
            single=len(once),
            once=once[:LISTED_LABELS],
            alike=len(variants),
            variants=sorted(variants, key=lambda group: -sum(group.values()))[:LISTED_LABELS],
        )


def _largest_first(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _folded(label: str) -> str:
    """Equal for labels that differ only in case, spaces and punctuation; "" and the like stay as they are."""
    return _BETWEEN_WORDS.sub(" ", label.casefold().strip(_AROUND)) or label
