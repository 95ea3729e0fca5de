"""One-time preparation of an installation, so that no run waits for it: ``python -m ft_assets.warm PART``.

numba compiles the kernels of curation and packing, and Python the modules that the graph and its workers import; both
cache the result. These two parts run in parallel. ``control`` is for the image without workers.
"""

import sys
from collections.abc import Callable
from importlib import import_module

from ft_assets.worker import WORK
from ft_assets.workers.libraries import UNUSED, absent, keep_offline


def kernels() -> None:
    """Kernels of curation, of similarity search and of packing."""
    import numpy as np

    from ft_assets.workers.packs.packing import pack

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


def control() -> None:
    """Modules that the processes of a cluster's control plane import."""
    for module in (
        "dagster._cli",
        "dagster._daemon.cli",
        "dagster_aws.s3",
        "dagster_k8s",
        "dagster_postgres",
        "dagster_webserver.cli",
        "ft_assets.definitions",
        "ft_assets.control.registry.precheck",
        "ft_assets.server.app",
        "kubernetes.client",
        "kubernetes.config",
        "mlflow.tracking",
        "psycopg2",
        "uvicorn",
    ):
        import_module(module)


PARTS: dict[str, Callable[[], None]] = {"kernels": kernels, "libraries": libraries, "control": control}

if __name__ == "__main__":
    PARTS[sys.argv[1]]()
