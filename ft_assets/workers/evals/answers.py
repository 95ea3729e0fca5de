"""Metrics of written answers, and the baselines that need no understanding of the question."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ft_assets.workers.evals.holdout_rows import target_of


def exact_match(answer: str, target: str) -> float:
    """1.0 if both are equal after trimming, else 0.0; case and punctuation count."""
    return float(answer.strip() == target.strip())


def f1(answer: str, target: str) -> float:
    """Harmonic mean of precision and recall of the words (Rajpurkar et al. 2016,
    https://arxiv.org/abs/1606.05250), split at white space.

    SQuAD's removal of articles, case and punctuation is left out: it suits English prose but not code.
    """
    given, right = answer.split(), target.split()
    if not given or not right:
        return float(given == right)
    common = sum((Counter(given) & Counter(right)).values())
    return 2 * common / (len(given) + len(right))


@dataclass(kw_only=True)
class TrainingAnswers:
    """The last answers of the training rows, that is, what can be memorised.

    Holds the set of answers in training, and the most common answer for each ``kind`` of row.
    """

    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    @classmethod
    def of(cls, records: Iterable[dict[str, Any]]) -> "TrainingAnswers":
        """Count the answers of a training split (see ``holdout_rows.read_records``); plain texts have none."""
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
        """The most common answer to rows of ``kind``; ties go to the first in alphabetical order."""
        counter = self.counts.get(kind)
        if not counter:
            return None
        return min(counter, key=lambda answer: (-counter[answer], answer))
