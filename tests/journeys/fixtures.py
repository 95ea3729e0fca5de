"""The journeys, each a fixture of the session; ``tests/journeys/__init__.py`` says how to use them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.project import Project, make_project
from tests.journeys import Journey, read_journey, write_journeys
from tests.once import made_once, shared_folder
from tests.safe_base import make_safe_base
from tests.warm_workers import PLACE, environment

DATASET = "acme.things.v1"


@pytest.fixture(scope="session")
def accepted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Journey:
    """The pair ``acme.things.v1|tiny.v1``, accepted: 160 conversations, a LoRA of eight steps, one suite, two gates.

    Its line ``acme.things.tiny`` has nothing in a stage. The same project has the pair of ``rejected``.
    """
    return read_journey(_pairs(request, tmp_path_factory), "accepted")


@pytest.fixture(scope="session")
def rejected(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Journey:
    """The pair ``acme.things.v1|greedy.v1``, rejected by task_gain: the training of ``accepted``, in its project."""
    return read_journey(_pairs(request, tmp_path_factory), "rejected")


@pytest.fixture(scope="session")
def safe_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a base that refuses what it should; training it takes as long as a test."""
    return made_once(shared_folder(tmp_path_factory) / "journeys" / "safe", make_safe_base)


def _pairs(request: pytest.FixtureRequest, factory: pytest.TempPathFactory) -> Path:
    def make(folder: Path) -> None:
        with _made_by_warm_workers(request, folder):
            project = make_project(folder)
            gate = {"metric": "perplexity", "min_relative": 900.0}
            recipes = {"accepted": project.recipe(), "rejected": project.recipe("greedy.v1", gates={"task_gain": gate})}
            journeys = {
                name: _travelled(project, recipe, dataset=project.dataset(), name="acme.things")
                for name, recipe in recipes.items()
            }
        assert journeys["accepted"].adapter, journeys["accepted"].reason
        assert "task_gain" in journeys["rejected"].reason
        write_journeys(folder, journeys)

    return made_once(shared_folder(factory) / "journeys" / "pairs", make)


def _travelled(project: Project, recipe: Path, dataset: Path, name: str) -> Journey:
    done = project.tune(dataset, recipe, name)
    return Journey(
        folder=project.folder,
        dataset=done.submission.dataset,
        recipe=done.submission.recipe,
        submission=done.submission.id,
        adapter=done.outcome.adapter,
        reason=done.outcome.reason,
    )


@contextmanager
def _made_by_warm_workers(request: pytest.FixtureRequest, folder: Path) -> Iterator[None]:
    """The environment in which a journey is made, whatever that of the first test which reads it is."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [each for each in os.environ if each.startswith(("FT_", "DAGSTER_"))]:
            patch.delenv(name)
        patch.setenv(PLACE, request.getfixturevalue("warm_server"))
        own: dict[str, Any] = {"FT_STATE": folder / "state", "FT_TRACKING": "off", "DAGSTER_HOME": folder}
        for name, value in {**own, **environment(), "OMP_NUM_THREADS": "1"}.items():
            patch.setenv(name, str(value))
        yield
