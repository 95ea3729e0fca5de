"""The whole graph over two pairs by backfills, launched as the UI launches them and run by a real daemon.

Dagster takes assets of one partitioning into a backfill, so the graph is three of them: datasets, recipes, pairs.
"""

from pathlib import Path

import pytest

from ft_assets.control.registry.register import register_recipe
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.records.submissions import SubmissionOutcome, SubmissionStatus, all_submissions, find_outcome
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_resources.artifacts import Address
from ft_resources.attempts import attempts_at
from tests.e2e.dagster_server import DagsterServer, dagster_server, wait_for
from tests.e2e.project import Project, make_project

pytestmark = pytest.mark.e2e

PAIRS = ["acme.things.v1|tiny.v1", "acme.things.v1|other.v1"]
# Of a machine that does other things too; nothing here is about speed.
LONG_S = 900


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = make_project(tmp_path / "project")
    policy = DatasetPolicy()
    add_dataset_version(project.store, project.dataset(), tenant="acme", name="things", policy=policy, actor="ann")
    for key, rank in (("tiny.v1", 4), ("other.v1", 2)):
        register_recipe(project.store, project.recipe(key, lora={"rank": rank}), actor="ann")
    return project


def ended(server: DagsterServer, backfill: str) -> str:
    over = ("COMPLETED_SUCCESS", "COMPLETED_FAILED", "COMPLETED", "FAILED", "CANCELED")
    return wait_for(lambda: status if (status := server.backfill_status(backfill)) in over else "", LONG_S, "the end")


def outcomes(project: Project) -> list[SubmissionOutcome]:
    found = (find_outcome(project.store, each) for each in all_submissions(project.store, "acme"))
    return [outcome for outcome in found if outcome]


def test_two_pairs_from_upload_to_adapter_by_backfills_of_the_ui(project: Project) -> None:
    with dagster_server(project) as server:
        server.add_partition("dataset", "acme.things.v1")
        for recipe in ("tiny.v1", "other.v1"):
            server.add_partition("recipe", recipe)
        roots = [
            server.backfill(["raw_dataset", "dataset"], ["acme.things.v1"]),
            server.backfill(["base_model", "baseline_report"], ["tiny.v1", "other.v1"]),
        ]
        assert [ended(server, each) for each in roots] == ["COMPLETED_SUCCESS"] * 2
        pairs = server.backfill(["token_pack", "checkpoint", "eval_report", "adapter"], PAIRS)
        assert ended(server, pairs) == "COMPLETED_SUCCESS"
        # The sensor that records how a submission ended comes after the backfill's own end.
        wait_for(lambda: len(outcomes(project)) == len(PAIRS), LONG_S, "the outcomes")

    # Each pair is a submission of the backfill, and ended in an adapter.
    submissions = all_submissions(project.store, "acme")
    assert {each.pair for each in submissions} == set(PAIRS)
    assert {each.origin for each in submissions} == {"backfill"}
    assert [outcome.status for outcome in outcomes(project)] == [SubmissionStatus.ACCEPTED] * 2
    assert len({outcome.adapter for outcome in outcomes(project)}) == 2
    # One base is mirrored and scored once for both recipes, and each pair is trained once.
    for tenant, asset, count in (("shared", "baseline_report", 1), ("acme", "checkpoint", 2), ("acme", "dataset", 1)):
        made = project.store.folders(f"{tenant}/{asset}")
        attempts = [len(attempts_at(project.store, Address.parse(f"{tenant}/{asset}/{each}"))) for each in made]
        assert attempts == [1] * count, asset
