"""``ft gate``: verdicts with their figures, and waivers by name."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ft_assets.cli.main import app
from ft_resources.store_marker import open_store
from tests.control.lines.test_graph import BAD, DATASET, GOOD, report
from tests.control.lines.test_graph import project as project  # a fixture
from tests.control.submissions.test_pauses import SUBMISSION
from tests.workers.evals.results import flips, losses, make_results
from tests.workers.evals.world import World

pytestmark = pytest.mark.dagster


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FT_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("FT_STATE", str(tmp_path / "state"))
    return World(store=open_store(str(tmp_path / "store"), create=True), folder=tmp_path)


def ft(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["gate", *arguments])


def test_a_rejected_pair_is_not_promoted_and_its_verdict_is_the_reason(project: World) -> None:
    """That it "has not been materialized" sent people to make it again, which never gives an adapter."""
    report(project, BAD, make_results(correct=flips(0.2, 0.1, 400)))
    refused = CliRunner().invoke(app, ["promote", BAD, "--to", "staging", "--reason", "x"])
    assert refused.exit_code == 2
    assert "the candidate was rejected by" in refused.stderr
    assert "task_gain: fail, exact_match 0.2 → 0.1" in refused.stderr


def test_while_a_submission_is_at_the_pair_its_gates_are_told_to_wait_for_it(project: World) -> None:
    """That somebody should materialize the report is wrong advice while it is made."""
    asked = SUBMISSION.model_copy(update={"dataset": DATASET, "recipe": "tiny.v1"})
    asked.create(project.store, asked.path)
    project.store.put_json(asked.marker, {})
    other = ft("show", *BAD.split("|"))
    assert "Materialize eval_report" in other.stderr
    for command in (("show",), ("waive", "task_gain", "--note", "x")):
        told = ft(command[0], *GOOD.split("|"), *command[1:])
        assert told.exit_code == 2
        assert f"its submission {asked.id} is open (queued)" in told.stderr
        assert f"ft status {asked.id}" in told.stderr
        assert "Materialize" not in told.stderr


def test_verdicts_are_shown_with_their_figures_and_only_what_is_undecided_can_be_waived(project: World) -> None:
    report(project, GOOD, make_results(correct=flips(0.2, 0.25, 40, extra=4), losses=losses(40, 0.2, noise=2.0)))
    report(project, BAD, make_results(correct=flips(0.2, 0.1, 400)))
    shown = ft("show", *GOOD.split("|"))
    assert shown.exit_code == 3
    assert "inconclusive" in shown.stdout
    assert "more rows would decide" in shown.stdout
    assert "±0.83" in shown.stdout
    assert "not required" in shown.stdout
    refused = ft("waive", *GOOD.split("|"), "regression", "--note", "x")
    assert (refused.exit_code, "cannot be waived" in refused.stderr) == (2, True)
    failed = ft("waive", *BAD.split("|"), "task_gain", "--note", "x")
    assert (failed.exit_code, "only an inconclusive verdict can be waived" in failed.stderr) == (2, True)
    assert ft("waive", *GOOD.split("|"), "task_gain", "--note", " ").exit_code == 2
    waived = ft("waive", *GOOD.split("|"), "task_gain", "--note", "No more tickets exist.")
    assert waived.exit_code == 0
    again = ft("waive", *GOOD.split("|"), "task_gain", "--note", "Something else.")
    assert "already waived by" in again.stderr
    after = ft("show", DATASET, "tiny.v1", "--json")
    assert after.exit_code == 0
    (gain,) = [verdict for verdict in json.loads(after.stdout) if verdict["gate"] == "task_gain"]
    assert gain["waiver"]["note"] == "No more tickets exist."


def test_what_a_submission_asked_for_is_shown_and_waived_as_it_is_judged(project: World) -> None:
    """A waiver holds for the thresholds it was given for, so those of a submission have to be said."""
    report(project, GOOD, make_results(correct=flips(0.2, 0.25, 40, extra=4), losses=losses(40, 0.2, noise=2.0)))
    pair, wish = GOOD.split("|"), ("--gate", "exact_match > 0.1")
    assert ft("show", *pair, "--gate", "task_gain.min_relative > 0.01").exit_code == 2
    assert ft("waive", *pair, "task_gain", "--note", "No more tickets exist.").exit_code == 0
    assert ft("show", *pair).exit_code == 0
    assert ft("show", *pair, *wish).exit_code == 3
    waived = ft("waive", *pair, "task_gain", "--note", "Nor for this.", *wish)
    assert f"to create the adapter: ft run {' '.join(pair)} --gate 'exact_match > 0.1'" in waived.stderr
    after = ft("show", *pair, *wish, "--json")
    found = {verdict["gate"]: verdict for verdict in json.loads(after.stdout)}
    assert (after.exit_code, found["task_gain"]["waiver"]["note"]) == (0, "Nor for this.")
    assert found["scores"]["outcome"] == "pass"
