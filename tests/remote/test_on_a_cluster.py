"""At the server of a cluster, which may create no Job there."""

import dagster as dg
import pytest
from fastapi import FastAPI

from ft_assets import api
from ft_assets.control import identity
from ft_assets.graph.orchestrator import Dagster
from ft_assets.server.app import api_app
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import Attempt, attempts_at
from ft_resources.jobs import Job
from ft_resources.launchers.local import LocalLauncher
from ft_resources.outcomes import Refund
from ft_resources.work import WorkSpec
from tests.cli.conftest import DATASET
from tests.cli.test_review import held as held
from tests.e2e.project import Project
from tests.remote.conftest import Far

pytestmark = pytest.mark.dagster


class Cluster(LocalLauncher):
    """Workers are Jobs, of which this process may create none."""

    @property
    def remote(self) -> "Cluster":  # type: ignore[override]
        return self

    def jobs(self, store_url: str) -> list[Job]:
        return []

    def discard(self, attempt: Attempt, refund: Refund) -> None:
        raise AssertionError("there is no Job")

    def launch(self, spec: WorkSpec, attempt: Attempt) -> None:
        raise AssertionError("a Job was created")


@pytest.fixture
def served(project: Project, access: api.Access, instance: dg.DagsterInstance) -> FastAPI:
    return api_app(project.store, access, orchestrator=Dagster(instance), launcher=Cluster())


def test_a_version_is_not_curated_there_and_its_owner_hears_how_it_comes_to_be(
    pair: tuple[str, str], far: Far, project: Project
) -> None:
    refused = far("dataset", "curate", DATASET)
    assert (refused.exit_code, refused.stdout, refused.stderr) == (
        2,
        "",
        "Error: it is not curated yet, and this server starts no work on the cluster\n  where: dataset "
        f"{DATASET}\n  what to do: Submit it; Dagster's daemon curates it before the training: ft submit "
        f"{DATASET} RECIPE\n",
    )
    assert attempts_at(project.store, identity.dataset_request(Artifacts(project.store), DATASET).address) == []
    assert f"{DATASET}  not curated" in far("dataset", "list").stdout


def test_what_is_curated_already_is_shown(held: tuple[str, str], far: Far) -> None:
    shown = far("dataset", "curate", DATASET)
    assert (shown.exit_code, shown.stdout) == (0, far("dataset", "report", DATASET).stdout)
