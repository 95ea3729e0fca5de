"""A database with MLflow's tables: making them takes seconds, so that is done once a session, and tests take copies."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ft_resources.mlflow_server import make_tables
from tests.once import made_once, shared_folder


@pytest.fixture(scope="session")
def new_mlflow(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], str]:
    """Makes the file ``mlflow.db`` in a folder; its URI."""
    made = made_once(
        shared_folder(tmp_path_factory) / "mlflow", lambda folder: make_tables(f"sqlite:///{folder}/mlflow.db")
    )

    def copied(folder: Path) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        return f"sqlite:///{shutil.copyfile(made / 'mlflow.db', folder / 'mlflow.db')}"

    return copied
