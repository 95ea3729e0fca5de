"""A rollout's end as an asset check: what a pair's page shows of its adapter in traffic."""

from pathlib import Path

import dagster as dg
import pytest

from ft_assets import api
from ft_assets.control.rollouts.asked import cancel
from ft_assets.graph.checks.rollouts import outcomes_result, report_outcomes
from ft_assets.graph.listed_keys import list_keys
from ft_resources.store_marker import open_store
from tests.control.lines.promotable import LINE, RECIPE, SERVED, Promotable
from tests.control.rollouts.made import BEGIN
from tests.control.rollouts.test_rollouts import HOUR, Rolled
from tests.workers.evals.world import World

DATASET = "acme.things.v1"


@pytest.fixture
def rolled(tmp_path: Path) -> Rolled:
    store = open_store(str(tmp_path / "store"), create=True)
    return Rolled(Promotable.make(World(store=store, folder=tmp_path)))


def test_a_candidate_that_was_taken_back_fails_with_the_evidence(rolled: Rolled) -> None:
    rolled.start()
    assert outcomes_result(rolled.artifacts, rolled.candidate).description == "none of its rollouts has ended"
    rolled.serve(45, (0.3, 0.9), BEGIN, "one")
    record = rolled.conduct(BEGIN + HOUR).record
    result = outcomes_result(rolled.artifacts, rolled.candidate)
    assert not result.passed
    assert result.description == f"rolled back: {record.reason}"
    assert result.metadata["thumbs"].value.startswith("thumbs: 0.289 good of 45")
    assert result.metadata["record"].value == record.path
    # It says nothing of the adapter that it was compared with.
    assert outcomes_result(rolled.artifacts, rolled.incumbent).passed


def test_a_rollout_that_a_person_ended_is_no_fail(rolled: Rolled) -> None:
    rolled.start()
    cancel(rolled.store, LINE, actor="ann", reason="the holidays")
    result = outcomes_result(rolled.artifacts, rolled.candidate)
    assert (result.passed, result.description) == (True, "cancelled: the holidays")


def test_rollouts_that_cannot_be_read_are_a_fail_and_end_no_run(rolled: Rolled) -> None:
    rolled.store.put(rolled.start().path, b"{}")
    result = outcomes_result(rolled.artifacts, rolled.candidate)
    assert not result.passed
    assert "acme/rollouts/" in result.description


def test_an_end_is_shown_on_the_pair_that_dagster_knows_and_nothing_else_is(rolled: Rolled) -> None:
    shown = []
    rolled.start()
    rolled.serve(45, (0.3, 0.9), BEGIN, "one")
    with dg.DagsterInstance.ephemeral() as instance:
        assert not report_outcomes(instance, rolled.artifacts, rolled.candidate)
        list_keys(instance, dataset=DATASET, recipe=RECIPE)

        def show(artifacts, adapter):
            shown.append((adapter.address, report_outcomes(instance, artifacts, adapter)))

        for _ in range(2):
            api.advance_rollouts(store=rolled.store, tenants=SERVED, show=show)
    assert shown == [(rolled.candidate.address, True)]
