"""The same items through our suites and through lm-eval's own task files."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from ft_assets.workers.suites.score import SuiteScore

if TYPE_CHECKING:
    from ft_assets.workers.evals.model import LoadedModel


def stock(loaded: Any, task: str, rows: Mapping[str, Iterable[dict[str, Any]]], folder: Path, **more: Any) -> Any:
    """lm-eval's samples of its own task file ``task``, over ``rows`` by split, in the items' order; ``loaded`` is a
    LoadedModel, or one of lm-eval's."""
    import lm_eval
    from lm_eval.evaluator import evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager
    from lm_eval.tasks._yaml_loader import load_yaml

    from ft_assets.workers.evals.model import LoadedModel

    config = load_yaml(Path(lm_eval.__file__).parent / "tasks" / task)
    # A template for many tasks has no name.
    config.setdefault("task", "one")
    folder.mkdir()
    files = {}
    for split, each in rows.items():
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in each))
        files[split] = str(folder / f"{split}.jsonl")
    config.pop("dataset_name", None)
    kwargs = {"data_files": files, "cache_dir": str(folder / "cache")}
    config |= {"dataset_path": "json", "dataset_kwargs": kwargs, **more}
    tasks = TaskManager(include_defaults=False).load([config])
    model: Any = loaded
    if isinstance(loaded, LoadedModel):
        model = HFLM(pretrained=loaded.model, tokenizer=loaded.tokenizer, batch_size=4)
    (samples,) = evaluate(model, tasks, bootstrap_iters=0, confirm_run_unsafe_code=True)["samples"].values()
    first = config["filter_list"][0]["name"] if "filter_list" in config else samples[0]["filter"]
    return sorted((each for each in samples if each["filter"] == first), key=lambda each: each["doc_id"])


class _CodeEval:
    """The library evaluate's ``code_eval``, which is a download: it runs the answer and then the test, as one text."""

    def compute(
        self, references: list[str], predictions: list[list[str]], k: list[int]
    ) -> tuple[dict[str, float], Any]:
        passed = [_runs(f"{each[0]}\n{test}") for test, each in zip(references, predictions, strict=True)]
        return {f"pass@{count}": sum(passed) / len(passed) for count in k}, None


def _runs(program: str) -> bool:
    try:
        exec(program, {})
    except Exception:
        return False
    return True


def code_eval() -> AbstractContextManager[Any]:
    """lm-eval's tasks of programs can be loaded inside."""
    return patch("evaluate.load", lambda *_: _CodeEval())


def ours(loaded: "LoadedModel", folder: Path) -> tuple[SuiteScore, list[Any]]:
    """Our score, and lm-eval's samples behind it."""
    import lm_eval.evaluator

    from ft_assets.workers.evals.runner import score_loaded

    seen: list[Any] = []
    evaluate = lm_eval.evaluator.evaluate

    def spied(*args: Any, **kwargs: Any) -> Any:
        results = evaluate(*args, **kwargs)
        seen.extend(next(iter(results["samples"].values())))
        return results

    with patch.object(lm_eval.evaluator, "evaluate", spied):
        score = score_loaded(loaded, {"one.v1": folder}, seed=3, limit=None, progress=lambda *_: None)["one.v1"]
    chosen = [each for each in seen if each["filter"] == seen[0]["filter"]]
    return score, sorted(chosen, key=lambda each: each["doc_id"])


def prompts(samples: Iterable[Any]) -> list[Any]:
    """What the model was asked, with each choice."""
    return [[[part for part in each if isinstance(part, str)] for each in sample["arguments"]] for sample in samples]


def score_of(sample: Any, metric: str) -> float:
    """An item's score from 0 to 1, of lm-eval's ``metric``."""
    if metric == "byte_perplexity":
        likelihood, size = sample[metric]
        return math.exp(likelihood / size)
    return float(sample[metric])


def are_equal(loaded: "LoadedModel", suite: Path, theirs: Sequence[Any], metric: str) -> list[bool]:
    """Whether each item of our ``suite`` is asked and scored as in lm-eval's samples ``theirs``."""
    score, samples = ours(loaded, suite)
    asked = zip(prompts(samples), prompts(theirs), strict=True)
    scored = zip(score.correct, (score_of(each, metric) for each in theirs), strict=True)
    # A text's likelihood has the rounding of its sums.
    return [
        mine == other and math.isclose(one, two, rel_tol=1e-5)
        for (mine, other), (one, two) in zip(asked, scored, strict=True)
    ]
