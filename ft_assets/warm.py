"""One-time preparation of an installation, so that no run waits for it: ``python -m ft_assets.warm PART``.

numba compiles the kernels of curation and packing, and Python the modules that the graph and its workers import; both
cache the result. The two parts run in parallel.
"""

import sys
from collections.abc import Callable
from importlib import import_module

from ft_assets.worker import WORK
from ft_assets.workers.libraries import UNUSED, absent, keep_offline
from ft_assets.workers.packs.packing import pack


def kernels() -> None:
    """Kernels of curation, of similarity search and of packing."""
    import numpy as np

    import_module("ft_assets.workers.datasets.engine.warm")
    for module in ("minhash", "near"):
        import_module(f"ft_assets.workers.datasets.similarity.{module}")
    pack(np.array([3, 5, 8]), max_length=8, seed=0)


def libraries() -> None:
    """Modules of Dagster, MLflow, PyTorch and the libraries that depend on it; needs the ``train`` extra."""
    keep_offline()
    with absent(*UNUSED):
        for work in WORK.values():
            import_module(work.partition(":")[0])
        for module in (
            "ft_assets.workers.training.training_loop",
            "ft_assets.workers.training.methods.sft",
            "ft_assets.workers.evals.shared_prefix",
            "ft_assets.definitions",
            "lm_eval.evaluator",
            "matplotlib.figure",
            "mlflow",
            "transformers.models.llama.modeling_llama",
        ):
            import_module(module)


PARTS: dict[str, Callable[[], None]] = {"kernels": kernels, "libraries": libraries}

if __name__ == "__main__":
    PARTS[sys.argv[1]]()
