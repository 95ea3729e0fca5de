"""Suites with long answers beside lm-eval's own tasks: a script writes the answers, right and wrong, for both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from lm_eval.api.model import LM

from ft_assets.workers.suites.score import SuiteScore
from ft_assets.workers.suites.suites import read_task, suite_files
from tests.workers.suites.beside_lm_eval import code_eval, ours, stock
from tests.workers.suites.hub_rows import other_splits

Row = dict[str, Any]
PROGRAMS = {
    "mbpp": ("mbpp/mbpp.yaml", "pass_at_1"),
    "humaneval-plus": ("humaneval/humaneval_plus.yaml", "pass@1"),
    "humaneval": ("humaneval/humaneval.yaml", "pass@1"),
}
_SAID = (
    "so the answer is ({right}).", "The answer is {right}", "the answer is (A), no, the answer is {right}",
    "I do not know.", "answer is ( {right} )", "The Answer is {right}.",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Whether each item is asked and judged as by lm-eval, our score, and the settings lm-eval writes answers with."""

    equal: list[bool]
    score: SuiteScore
    settings: Row


def mmlu_pro(suite: Path, name: str, rows: list[Row], folder: Path) -> Compared:
    """MMLU-Pro's suite ``name`` over ``rows`` of its test split; ``folder`` is for lm-eval's files."""
    import torch

    from ft_assets.workers.evals import shared_prefix
    from ft_assets.workers.evals.model import LoadedModel
    from tests.workers.suites.written import Scripted

    said = {row["question_id"]: _SAID[n % len(_SAID)].format(right=row["answer"]) for n, row in enumerate(rows)}
    mine = Scripted(lambda doc: said[doc["id"]])
    with patch.object(shared_prefix, "SharedPrefixLM", lambda *_: mine):
        score, _ = ours(LoadedModel(model=torch.nn.Identity(), tokenizer=None), suite)
    found = dict(zip(score.item_ids, zip(mine.asked, score.correct, strict=True), strict=True))
    equal, settings = [], {}
    for subject in dict.fromkeys(row["category"] for row in rows):
        theirs = Scripted(lambda doc: said[doc["question_id"]])
        task = f"mmlu_pro/mmlu_pro_{subject.replace(' ', '_')}.yaml"
        samples = stock(theirs, task, {"test": rows, **other_splits(name)}, folder / subject)
        for sample, asked in zip(samples, theirs.asked, strict=True):
            equal.append(found[str(sample["doc"]["question_id"])] == (asked, sample["exact_match"]))
            settings = asked[1]
    return Compared(equal=equal, score=score, settings=settings)


class _Asking:
    """What a suite of programs asks, and the answers that it gets."""

    where = "suite"

    def __init__(self, answers: Sequence[str]) -> None:
        self.answers, self.texts = list(answers), list[str]()

    def report(self, done: int, total: int) -> None:
        pass

    def continue_texts(self, texts: Sequence[str], **more: Any) -> list[str]:
        self.texts = list(texts)
        return self.answers

    def answer_prompts(self, prompts: Sequence[str], **more: Any) -> dict[int, str]:
        raise NotImplementedError


def _solution(row: Row) -> str:
    return str(row.get("code") or row["canonical_solution"])


_ANSWERS: list[Callable[[Row], str]] = [
    _solution,
    lambda row: _solution(row).replace("return", "return 1 +"),
    lambda row: "",
    lambda row: _solution(row) + "\n",
    lambda row: _solution(row).replace("return", "retur"),
]


def programs(suite: Path, name: str, rows: list[Row], folder: Path) -> Compared:
    """The suite ``name`` of programs over ``rows`` of its test split, in the sandbox."""
    from ft_assets.workers.suites.kinds import code
    from tests.workers.suites.written import Scripted

    said = {row["task_id"]: _ANSWERS[number % len(_ANSWERS)](row) for number, row in enumerate(rows)}
    theirs, (file, metric) = Scripted(lambda doc: said[doc["task_id"]]), PROGRAMS[name]
    with code_eval():
        samples = stock(theirs, file, {"test": rows}, folder)
    task: Any = read_task(suite / "task.yaml")
    mine = _Asking([said[row["task_id"]] for row in rows])
    score = code.score(task, code.read(task, suite_files(suite), "here"), mine)
    equal = [
        text == asked and right == sample[metric]
        for text, right, (asked, _), sample in zip(mine.texts, score.correct, theirs.asked, samples, strict=True)
    ]
    return Compared(equal=equal, score=score, settings=theirs.asked[0][1])


class Scripted(LM):
    """Writes what ``write`` says to each document; ``asked`` are the texts and settings, in the documents' order."""

    def __init__(self, write: Callable[[dict[str, Any]], str]) -> None:
        super().__init__()
        self.write = write
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def generate_until(self, requests: list[Any]) -> list[str]:
        self.asked += [(each.args[0], {**each.args[1]}) for each in requests]
        return [self.write(each.doc) for each in requests]

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
        raise NotImplementedError
