"""``python -m benchmarks.eval_ours BASE OUT NAME=FOLDER …``: score suites as the worker does, and write down what stock
lm-eval writes down of each item: whether it is right, and each choice's likelihood."""

import json
import sys
from pathlib import Path
from typing import Any

from ft_assets.workers.libraries import UNUSED, absent, keep_offline


def main() -> None:
    base, out, *named = sys.argv[1:]
    suites = {name: Path(folder) for name, _, folder in (each.partition("=") for each in named)}
    keep_offline()
    with absent(*UNUSED):
        found = _score(Path(base), suites)
    Path(out).write_text(json.dumps(found))


def _score(base: Path, suites: dict[str, Path]) -> dict[str, Any]:
    from ft_assets.workers.evals import shared_prefix
    from ft_assets.workers.evals.model import load_model
    from ft_assets.workers.evals.runner import score_loaded

    answered: list[list[tuple[float, bool]]] = []

    class Recording(shared_prefix.SharedPrefixLM):
        """Keeps the answers of each suite, which come in the order of items and choices."""

        def loglikelihood(self, requests: list[Any], disable_tqdm: bool = True) -> list[tuple[float, bool]]:
            answered.append(super().loglikelihood(requests, disable_tqdm))
            return answered[-1]

    shared_prefix.SharedPrefixLM = Recording  # type: ignore[misc]
    model = load_model(base)
    scores = score_loaded(model, suites, seed=1234, limit=None, progress=lambda *_: None)
    return {
        name: {"ids": score.item_ids, "acc": score.correct, "value": score.value, "answers": answers}
        for (name, score), answers in zip(scores.items(), answered, strict=True)
    }


if __name__ == "__main__":
    main()
