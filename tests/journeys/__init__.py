"""Journeys: whole runs through the graph that are made once for all tests, and read by many.

A journey is a folder with a project: its store, the Dagster home of its instance, its dataset file and recipes. The
first test that asks for one makes it by the real path (``fine_tune`` with real workers) below pytest's base folder,
which all processes of pytest-xdist share; the others wait for it. ``tests/journeys/fixtures.py`` has the journeys as
fixtures of the session; a ``conftest.py`` imports those that the tests of its folder read.

A test that only reads takes the journey as it is. One that changes anything, if only by a promotion, takes a copy::

    def test_…(accepted: Journey, tmp_path: Path) -> None:
        mine = copied(accepted, tmp_path / "mine")
        api.promote(mine.adapter, "staging", reason="good", store=mine.store)

A copy is a project of its own: its ``store_url`` and its Dagster home are below its own folder. The records of attempts
still name the folders of the workers that made it.

Tests that read a journey are marked ``e2e``, as the first of them makes it.
"""

import json
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import dagster as dg

from ft_resources.store import Store
from tests.e2e.project import Project

_FILE = "journey.json"


@dataclass(frozen=True, kw_only=True)
class Journey:
    """One pair in a project.

    ``dataset`` and ``recipe`` are keys, ``submission`` is the pair's id, ``adapter`` the adapter's address, empty if
    the pair was rejected, and ``reason`` what the outcome says.
    """

    folder: Path
    dataset: str
    recipe: str
    submission: str
    adapter: str
    reason: str

    @property
    def pair(self) -> str:
        """The partition of both keys."""
        return f"{self.dataset}|{self.recipe}"

    @property
    def store_url(self) -> str:
        return f"file://{self.folder}/store"

    @property
    def project(self) -> Project:
        return Project(folder=self.folder, store_url=self.store_url)

    @property
    def store(self) -> Store:
        return self.project.store

    def instance(self) -> dg.DagsterInstance:
        """The Dagster instance that recorded the runs."""
        return self.project.instance()


def write_journeys(folder: Path, journeys: dict[str, Journey]) -> None:
    """Keep the journeys of a project in its folder."""
    told = {name: {**asdict(journey), "folder": ""} for name, journey in journeys.items()}
    (folder / _FILE).write_text(json.dumps(told))


def read_journey(folder: Path, name: str) -> Journey:
    """The journey ``name`` of the project in ``folder``."""
    return Journey(**{**json.loads((folder / _FILE).read_text())[name], "folder": folder})


def copied(journey: Journey, folder: Path) -> Journey:
    """The journey in a project of its own in ``folder``, which is made."""
    shutil.copytree(journey.folder, folder)
    return replace(journey, folder=folder)
