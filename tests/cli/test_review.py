"""Held dataset versions from the command line: told, shown, approved, and gone on with."""

import json
from pathlib import Path

import dagster as dg
import pytest

from ft_assets.api import fine_tune
from ft_assets.control import identity
from ft_assets.graph.checks.datasets import REVIEW
from ft_assets.graph.orchestrator import Dagster
from ft_assets.records.names import HELD_OUT
from ft_assets.records.submissions import open_submissions
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import Attempt
from ft_resources.errors import HeldForReview
from ft_resources.outcomes import Outcome
from tests.cli.conftest import DATASET, RECIPE, Ft
from tests.curated import LEAK, leave_dataset
from tests.e2e.project import Project
from tests.workers.suites.name_folder import write_name_folder

pytestmark = pytest.mark.dagster

Pair = tuple[str, str]


@pytest.fixture
def held(project: Project, pair: Pair) -> Pair:
    """A pair whose dataset is curated and held."""
    leave_dataset(Artifacts(project.store), DATASET, [LEAK])
    return pair


def test_a_foreground_run_of_a_held_dataset_ends_with_how_to_go_on(project: Project, ft: Ft, held: Pair) -> None:
    result = ft("run", *held)
    assert result.exit_code == 4
    assert LEAK in result.stderr
    assert f"ft dataset approve {DATASET} --note" in result.stderr
    assert f"continue with: ft run {DATASET} {RECIPE}" in result.stderr
    assert "Traceback" not in result.output
    # It is not ended, and asking again joins it.
    (submission,) = open_submissions(project.store)
    assert ft("run", *held).exit_code == 4
    assert [each.id for each in open_submissions(project.store)] == [submission.id]


def test_the_python_function_raises_what_a_caller_can_act_on(
    project: Project, instance: dg.DagsterInstance, held: Pair
) -> None:
    with pytest.raises(HeldForReview) as error:
        fine_tune(*held, store=project.store, orchestrator=Dagster(instance), actor="ann")
    assert (error.value.dataset, error.value.reasons) == (DATASET, (LEAK,))


def test_the_status_says_held_and_why(ft: Ft, held: Pair) -> None:
    submission = ft("submit", *held).stdout.strip()
    assert "held" in ft("status").stdout
    (found,) = json.loads(ft("status", submission, "--json").stdout)
    assert found["state"] == "held"
    assert LEAK in found["detail"]
    ft("dataset", "approve", DATASET, "--note", "the tests are public")
    (found,) = json.loads(ft("status", submission, "--json").stdout)
    assert found["state"] == "queued"


def test_an_approval_is_recorded_once_with_its_note_and_shown_in_dagster(
    ft: Ft, held: Pair, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.add_dynamic_partitions("dataset", [DATASET])
    assert ft("dataset", "approve", DATASET).exit_code == 2
    first = ft("dataset", "approve", DATASET, "--note", "the tests are public")
    assert (first.exit_code, first.stdout) == (0, f"{DATASET}\n")
    monkeypatch.setattr("ft_assets.cli.datasets.actor", lambda: "somebody-else")
    again = ft("dataset", "approve", DATASET, "--note", "me too")
    assert again.exit_code == 0
    assert "already approved by" in again.stderr
    assert "the tests are public" in again.stderr
    check = dg.AssetCheckKey(dg.AssetKey("dataset"), REVIEW)
    assert instance.event_log_storage.get_latest_asset_check_execution_by_key([check])[check].partition == DATASET


def test_what_cannot_be_approved_is_a_mistake_with_a_remedy(project: Project, ft: Ft, pair: Pair) -> None:
    note = ("--note", "fine")
    for key, message in (
        ("acme.colours.v9", "there is no dataset version"),
        (DATASET, "dataset has not been materialized"),
    ):
        result = ft("dataset", "approve", key, *note)
        assert (result.exit_code, message in result.stderr, "what to do:" in result.stderr) == (2, True, True)
    leave_dataset(Artifacts(project.store), DATASET, [])
    result = ft("dataset", "approve", DATASET, *note)
    assert (result.exit_code, "is not held" in result.stderr) == (2, True)


def test_the_list_shows_how_each_version_of_a_dataset_stands(project: Project, ft: Ft, held: Pair) -> None:
    def states(*arguments: str) -> dict[str, str]:
        return {item["key"]: item["state"] for item in json.loads(ft("dataset", "list", *arguments, "--json").stdout)}

    ft("dataset", "add", project.dataset(170, "more.jsonl"), "--name", "acme.colours")
    ft("dataset", "add", project.dataset(170, "more.jsonl"), "--name", "acme.other")
    assert states("acme.colours") == {DATASET: "held", "acme.colours.v2": "not curated"}
    assert f"held: {LEAK}" in ft("dataset", "list", "acme.colours").stdout
    ft("dataset", "approve", DATASET, "--note", "fine")
    leave_dataset(Artifacts(project.store), "acme.colours.v2", [])
    assert states("acme.colours") == {DATASET: "approved", "acme.colours.v2": "accepted"}
    assert "acme.other.v1" in states()
    lines = ft("dataset", "list", "acme.colours").stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [[DATASET, "approved"], ["acme.colours.v2", "accepted"]]


def test_one_broken_approval_does_not_hide_the_list(project: Project, ft: Ft, held: Pair) -> None:
    ft("dataset", "approve", DATASET, "--note", "fine")
    (record,) = project.store.entries("acme/reviews")
    project.store.put(record.path, b"{}")
    (found,) = json.loads(ft("dataset", "list", "--json").stdout)
    assert found["state"] == "damaged"
    assert "approval" in found["why"]


def test_the_list_says_what_was_deleted_and_why_curation_failed(project: Project, ft: Ft, held: Pair) -> None:
    # Both were "not curated" or "unreadable".
    ft("dataset", "add", project.dataset(170, "more.jsonl"), "--name", "acme.colours")
    ft("delete", DATASET, "--reason", "contract ended")
    artifacts = Artifacts(project.store)
    HELD_OUT.create(project.store, "acme.colours.v2", {"address": "", "digest": ""})
    attempt = Attempt(project.store, identity.dataset_request(artifacts, "acme.colours.v2").address, 1)
    attempt.claim("ann")
    error = {"type": "BadData", "what": "rows.jsonl, row 7: no answer", "where": "", "remedy": ""}
    attempt.record_ending(Outcome.BAD_DATA, error)
    result = ft("dataset", "list")
    assert result.exit_code == 0, result.exception
    lines = result.stdout.splitlines()
    assert lines[1].split()[:2] == [DATASET, "deleted"]
    assert "curation failed: rows.jsonl, row 7: no answer" in lines[2]
    attempt = Attempt(project.store, attempt.address, 2)
    attempt.claim("ann")
    assert json.loads(ft("dataset", "list", "--json").stdout)[1]["state"] == "not curated"


def test_the_report_is_summed_up_with_numbers_reasons_and_the_page(project: Project, ft: Ft, held: Pair) -> None:
    text = ft("dataset", "report", DATASET).stdout
    for line in (
        f"{DATASET}: held",
        "rows: 153 read; train 120, validation 15, holdout 15",
        "- 2: the same text as an earlier row",
        "- Most answers are short.",
        f"- {LEAK}",
        f"ft dataset approve {DATASET}",
        "report/report.html",
    ):
        assert line in text
    ft("dataset", "approve", DATASET, "--note", "the tests are public")
    assert "the tests are public" in ft("dataset", "report", DATASET).stdout
    found = json.loads(ft("dataset", "report", DATASET, "--json").stdout)
    assert (found["state"], found["held"], found["rows"]["train"]) == ("approved", [LEAK], 120)
    assert found["approved"]["note"] == "the tests are public"
    assert ft("dataset", "report", "acme.colours.v9").exit_code == 2


def test_a_shared_dataset_can_be_added_but_not_trained_on(project: Project, ft: Ft, pair: Pair) -> None:
    added = ft("dataset", "add", project.dataset(170, "more.jsonl"), "--name", "shared.general")
    assert added.stdout == "shared.general.v1\n"
    assert "shared.general.v1" in ft("dataset", "list").stdout
    for command in ("run", "submit"):
        result = ft(command, "shared.general.v1", RECIPE)
        assert result.exit_code == 2
        assert "an adapter belongs to one tenant" in result.stderr


def test_a_tenants_tier_limits_what_it_may_add(project: Project, ft: Ft) -> None:
    tenants = project.folder / "tenants.yaml"
    tenants.write_text("tiers: {trial: {max_examples: 150}}\ntenants: {acme: {tier: trial}}\n")
    result = ft("dataset", "add", project.dataset(160), "--name", "acme.colours")
    assert result.exit_code == 2
    assert "160 examples are more than the 150 that acme may have in one dataset version" in result.stderr
    assert ft("dataset", "add", project.dataset(160), "--name", "globex.colours").exit_code == 0


def test_a_name_model_is_added_once_and_listed_with_what_it_finds(ft: Ft, tmp_path: Path) -> None:
    assert "No name models yet" in ft("dataset", "name-model", "list").stderr
    folder = write_name_folder(tmp_path / "model")
    added, again = (ft("dataset", "name-model", "add", folder, "names-de.v1") for _ in range(2))
    assert (added.stdout, added.exit_code) == ("names-de.v1\n", 0)
    assert "added; language de, finds LOCATION, PERSON" in added.stderr
    assert "already present" in again.stderr
    assert ft("dataset", "name-model", "list").stdout.splitlines()[-1].split() == [
        "names-de.v1",
        "de",
        "LOCATION,",
        "PERSON",
    ]


def test_classifiers_are_a_part_of_datasets(ft: Ft, project: Project) -> None:
    assert "No classifiers yet" in ft("dataset", "classifier", "list").stderr
