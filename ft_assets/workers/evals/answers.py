"""Metrics of written answers, and how far one gets without understanding anything."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ft_assets.evals.holdout_rows import target_of


def exact_match(answer: str, target: str) -> float:
    """1.0 where both are equal after trimming, else 0.0; case and punctuation count."""
    return float(answer.strip() == target.strip())


def f1(answer: str, target: str) -> float:
    """Harmonic mean of precision and recall of the words (Rajpurkar et al. 2016,
    https://arxiv.org/abs/1606.05250), split at white space.

    SQuAD's removal of articles, case and punctuation is left out: it suits English prose and no code.
    """
    given, right = answer.split(), target.split()
    if not given or not right:
        return float(given == right)
    common = sum((Counter(given) & Counter(right)).values())
    return 2 * common / (len(given) + len(right))


@dataclass(kw_only=True)
class TrainingAnswers:
    """The last answers of the training rows: what there is to memorise.

    Answers that stand in training, and the commonest one for each ``kind`` of row.
    """

    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    @classmethod
    def of(cls, records: Iterable[dict[str, Any]]) -> "TrainingAnswers":
        """Count the answers of a training split (see ``holdout_rows.read_records``); none of plain texts."""
        answers = cls()
        for record in records:
            if "messages" not in record:
                continue
            answers.counts[record["kind"]][target_of(record["messages"])] += 1
        return answers

    def seen(self, target: str) -> bool:
        """Whether any training row has this answer."""
        return any(target in counter for counter in self.counts.values())

    def commonest(self, kind: str) -> str | None:
        """The commonest answer to rows of ``kind``, of equally common ones the first in the alphabet."""
        counter = self.counts.get(kind)
        if not counter:
            return None
        return min(counter, key=lambda answer: (-counter[answer], answer))
