"""From lm-eval's samples: scores for which it has no function, and each item's texts."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ft_assets.workers.suites.score import Said
from ft_assets.workers.suites.suite_task import SuiteTask

# Characters of a long text on the report page.
_SHOWN = 500


def true_mass(sample: Mapping[str, Any]) -> float:
    """The share of an item's probability on its right choices, between 0 and 1.

    TruthfulQA's MC2 (Lin et al. 2022, https://arxiv.org/abs/2109.07958, section 3): the likelihoods of all choices,
    normalised to sum to 1, summed over the true ones. Computed as a softmax of log-likelihoods, since the probabilities
    of very unlikely choices would all underflow to 0.
    """
    logs = [float(response[0]) for response in sample["filtered_resps"]]
    highest = max(logs)
    weights = [math.exp(each - highest) for each in logs]
    return min(1.0, math.fsum(weights[place] for place in set(sample["target"])) / math.fsum(weights))


def score_texts(
    settings: SuiteTask, task: Any, samples: Sequence[Mapping[str, Any]]
) -> tuple[list[float], dict[str, float]]:
    """For each text the geometric mean of its bytes' probabilities; lm-eval's perplexities over all texts.

    A gate needs an item's score from 0 to 1, higher when better, which the inverse of its byte perplexity is. lm-eval's
    figures weigh texts by their length, as if they were one.
    """
    logs = [float(sample["filtered_resps"][0]) for sample in samples]
    counted = [
        sample["doc"][settings.counted] if settings.counted else task.doc_to_target(sample["doc"]) for sample in samples
    ]
    sizes = [len(text.encode()) for text in counted]
    # As lm-eval counts words.
    words = sum(len(re.split(r"\s+", text)) for text in counted)
    also = {
        "word_perplexity": perplexity(logs, words),
        "byte_perplexity": perplexity(logs, sum(sizes)),
        "bits_per_byte": -math.fsum(logs) / sum(sizes) / math.log(2),
    }
    return [math.exp(log / size) for log, size in zip(logs, sizes, strict=True)], also


def perplexity(logs: Sequence[float], count: int) -> float:
    """Perplexity per unit, for ``count`` units (words, bytes or texts) with these log-likelihoods."""
    # A Chinese text is one word, whose perplexity may overflow.
    return math.exp(min(700.0, -math.fsum(logs) / count))


def score_by(column: str, correct: Sequence[float], docs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The mean score of the items with each value of ``column``, by ``COLUMN VALUE``."""
    found: dict[str, list[float]] = {}
    for score, doc in zip(correct, docs, strict=True):
        found.setdefault(str(doc[column]), []).append(score)
    return {f"{column} {value}": math.fsum(scores) / len(scores) for value, scores in sorted(found.items())}


def bias_by(column: str, task: Any, samples: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """BBQ's bias of the items with each value of ``column``, by ``bias COLUMN VALUE``: from -1 to 1, 0 is none.

    Parrish et al. 2022 (https://arxiv.org/abs/2110.08193, section 5), the score for clear texts; that for ambiguous
    ones is (1 - accuracy) times it. As in lm-eval it is 0 if no biased choice is taken.
    """
    taken: dict[str, list[int]] = {}
    for sample in samples:
        logs = [float(response[0]) for response in sample["filtered_resps"]]
        choice = task.doc_to_choice(sample["doc"])[logs.index(max(logs))]
        counts = taken.setdefault(str(sample["doc"][column]), [0, 0])
        counts[0] += choice in sample["doc"]["biased"]
        counts[1] += choice in sample["doc"]["sided"]
    return {
        f"bias {column} {value}": 2 * biased / sided - 1 if biased else 0.0
        for value, (biased, sided) in sorted(taken.items())
    }


def said_of(task: Any, settings: SuiteTask, sample: Mapping[str, Any]) -> Said:
    """The item's texts; for choices the likeliest one, with acc_norm and acc_bytes relative to its length."""
    doc, target = sample["doc"], sample["target"]
    if settings.output_type == "loglikelihood_rolling":
        bits = -float(sample["filtered_resps"][0]) / math.log(2)
        return Said(question=str(target)[:_SHOWN], target="", answer=f"{bits:,.0f} bits")
    question = task.doc_to_text(doc)
    if settings.output_type == "loglikelihood":
        likelihood, greedy = sample["filtered_resps"][0]
        other = f"something else; this has probability {math.exp(likelihood):.2g}"
        return Said(question=str(question), target=str(target).strip(), answer=str(target).strip() if greedy else other)
    if settings.output_type == "generate_until":
        answer = str(sample["resps"][0][0]).strip()
        return Said(question=str(question), target=_joined([str(each) for each in _list(target)]), answer=answer)
    choices = task.doc_to_choice(doc)
    if isinstance(question, int):
        # As in Winogrande: the choices differ in the question.
        question, target = "", question
    lengths = {"acc_norm": len, "acc_bytes": lambda text: len(text.encode())}.get(
        settings.scored_metric, lambda text: 1
    )
    logs = [
        float(response[0]) / lengths(choice) for response, choice in zip(sample["filtered_resps"], choices, strict=True)
    ]
    right = [choices[each] if isinstance(each, int) else str(each) for each in _list(target)]
    return Said(question=str(question), target=_joined(right), answer=choices[logs.index(max(logs))])


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _joined(texts: Sequence[str]) -> str:
    return " | ".join(text.strip() for text in texts)
