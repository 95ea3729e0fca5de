"""One backfill over the whole graph, as Dagster itself orders it, and the lineage of its partitions over GraphQL."""

import pytest

from ft_assets import api
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.graph.orchestrator import Dagster
from ft_assets.records.submissions import SubmissionStatus, all_submissions, find_outcome
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_resources.artifacts import Address
from ft_resources.attempts import attempts_at
from tests.e2e.dagster_server import LONG_S, DagsterServer, dagster_server, wait_for
from tests.e2e.project import make_project
from tests.fake_base import make_fake_base

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]

DATASET, RECIPES = "acme.boxes.v1", {"first.v1": 4, "second.v1": 2}
PAIRS = [f"{DATASET}|{recipe}" for recipe in RECIPES]
OF_PAIRS = ("token_pack", "checkpoint", "eval_report", "adapter")
WANTED = {
    **{asset: [DATASET] for asset in ("raw_dataset", "dataset")},
    **{asset: list(RECIPES) for asset in ("base_model", "baseline_report")},
    **dict.fromkeys(OF_PAIRS, PAIRS),
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("FT_STATE", str(tmp_path / "project" / "state"))
    monkeypatch.setenv("FT_SENSOR_SECONDS", "2")
    project = make_project(tmp_path / "project")
    rows = project.dataset(120, "boxes.jsonl")
    add_dataset_version(project.store, rows, tenant="acme", name="boxes", policy=DatasetPolicy(), actor="ann")
    make_fake_base(project.folder / "another", seed=1)
    for recipe, rank in RECIPES.items():
        file = project.recipe(recipe, base="folder:./another", lora={"rank": rank})
        register_recipe(project.store, file, actor="ann")
    return project


def ended(server: DagsterServer, backfill: str) -> str:
    over = ("COMPLETED_SUCCESS", "COMPLETED_FAILED", "COMPLETED", "FAILED", "CANCELED")
    return wait_for(lambda: status if (status := server.backfill_status(backfill)) in over else "", LONG_S, "the end")


def test_one_backfill_over_the_whole_graph_ends_with_two_adapters_through_a_killed_daemon(project) -> None:
    store = project.store
    with dagster_server(project) as server:
        server.add_partition("dataset", DATASET)
        for recipe in RECIPES:
            server.add_partition("recipe", recipe)
        backfill = server.backfill_by_assets(WANTED)
        wait_for(server.runs, LONG_S, "a first run")
        server.kill()
    with dagster_server(project) as server:
        assert ended(server, backfill) == "COMPLETED_SUCCESS"
        for asset in WANTED:
            assert server.stale_statuses(asset, WANTED[asset]) == ["FRESH"] * len(WANTED[asset]), asset
        lineage(server)
        # The same by one call: nothing is made again.
        asked = api.backfill([DATASET], list(RECIPES), store=store, orchestrator=Dagster(project.instance()))
        assert ended(server, asked) == "COMPLETED_SUCCESS"
        # Each pair is a submission of each backfill, and ended in an adapter. The sensor that records how a submission
        # ended comes after the backfill's own end.
        submissions = all_submissions(store, "acme")
        assert {(each.pair, each.origin) for each in submissions} == {(pair, "backfill") for pair in PAIRS}
        outcomes = [wait_for(lambda: find_outcome(store, each), LONG_S, "an outcome") for each in submissions]  # noqa: B023
    assert [outcome.status for outcome in outcomes] == [SubmissionStatus.ACCEPTED] * 4
    assert len({outcome.adapter for outcome in outcomes}) == 2
    # One base is mirrored and scored once for both recipes, and each pair is trained once.
    for kind, count in {"shared/baseline_report": 1, "acme/checkpoint": 2, "acme/dataset": 1}.items():
        made = store.folders(kind)
        assert len(made) == count
        assert all(len(attempts_at(store, Address.parse(f"{kind}/{each}"))) == 1 for each in made), kind


def lineage(server: DagsterServer) -> None:
    """The grid of pairs, and the partitions above and below one."""
    assert server.dimensions("adapter") == {"dataset": [DATASET], "recipe": sorted(RECIPES)}
    counts = server.partition_counts("adapter")
    assert (counts["partitions"], counts["materialized"]) == (2, 2)
    one = "MultiToSingleDimensionPartitionMapping"
    assert server.mappings("token_pack") == {"dataset": one, "base_model": one}
    assert server.mappings("eval_report") == {
        "dataset": one,
        "base_model": one,
        "baseline_report": one,
        "checkpoint": "",
    }
    assert server.preview(["base_model", "token_pack"], ["first.v1"])["token_pack"] == PAIRS[:1]
    assert server.preview(["dataset", "token_pack"], [DATASET])["token_pack"] == PAIRS
