"""Asking, watching, reading logs and cancelling, over records and attempts that the tests write."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from ft_assets.cli.live import render
from ft_assets.control import identity
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.submissions.status import start_of
from ft_assets.control.submissions.works import read_works
from ft_assets.records.submissions import Submission, SubmissionStatus, find_outcome, finish, open_submissions
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import START, Attempt
from ft_resources.canonical import canonical_json
from ft_resources.outcomes import Outcome
from ft_resources.store import Store
from tests.cli.conftest import DATASET, FACTS, RECIPE, Ft
from tests.e2e.project import Project
from tests.made import spec_of

pytestmark = pytest.mark.dagster

Pair = tuple[str, str]


@pytest.fixture
def asked(project: Project, ft: Ft, pair: Pair) -> Submission:
    """A submission of the pair."""
    assert ft("submit", *pair).exit_code == 0
    (submission,) = open_submissions(project.store)
    return submission


def attempt_at_dataset(store: Store, dataset: str = DATASET) -> Attempt:
    """A claimed attempt at curating the dataset, with a heartbeat and a log, by a worker that is nowhere."""
    request = identity.dataset_request(Artifacts(store), dataset)
    attempt = Attempt(store, request.address, 1)
    attempt.claim("ann")
    attempt.write_spec(spec_of(store, request))
    beat = {"phase": "reading", "done": 40, "total": 160, "tokens_per_s": 5400.0, "loss": 1.25, "eta_s": 75.0}
    store.put_json(f"{attempt.path}/progress.json", {**beat, "at": time.time()})
    store.put(f"{attempt.path}/log-000001.txt", b"first line\n")
    store.put(f"{attempt.path}/log-000002.txt", b"second line\n")
    return attempt


def test_submitting_twice_is_one_submission_for_the_sensor(project: Project, ft: Ft, asked: Submission) -> None:
    assert (asked.origin, asked.driver, asked.pair) == ("cli", "sensor", f"{DATASET}|{RECIPE}")
    assert ft("submit", DATASET, RECIPE).stdout == f"{asked.id}\n"
    assert len(list(open_submissions(project.store))) == 1


def test_what_is_queued_says_what_it_waits_for(
    project: Project, ft: Ft, asked: Submission, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = "waits: a running Dagster starts it"
    assert waits in ft("status", asked.id).stdout
    assert waits in ft("status").stdout
    later = asked.model_copy(update={"id": "f" * 16, "created_at": "2999-01-01T00:00:00+00:00"})
    for path in (later.path, later.marker):
        project.store.put(path, canonical_json(later.model_dump(mode="json")))
    assert json.loads(ft("status", later.id, "--json").stdout)[0]["detail"] == (
        "waits: 1 earlier submission is open; a running Dagster starts it"
    )
    (tmp_path / "tenants.yaml").write_text("tenants: {acme: {quota: {concurrent: 1}}}\n")
    monkeypatch.setenv("FT_TENANTS", str(tmp_path / "tenants.yaml"))
    newest = json.loads(ft("status", "--json").stdout)[0]
    assert newest["detail"].startswith("waits: 1 earlier submission is open (limit: 1 concurrent trainings); ")
    monkeypatch.setenv("FT_TENANTS", str(tmp_path / "lost.yaml"))
    assert ft("status", asked.id).exit_code == 0


def test_status_shows_the_numbers_of_the_running_worker(project: Project, ft: Ft, asked: Submission) -> None:
    assert "queued" in ft("status").stdout
    attempt_at_dataset(project.store)
    shown = ft("status", asked.id).stdout
    for words in ("preparing", "40/160", "loss 1.250", "5,400 tokens/s", "1 min 15 s left"):
        assert words in shown
    (item,) = json.loads(ft("status", "--tenant", "acme", "--json").stdout)
    assert (item["state"], item["step"], item["steps"], item["eta_s"]) == ("preparing", 40, 160, 75.0)
    assert json.loads(ft("status", "--tenant", "globex", "--json").stdout) == []


def test_status_shows_what_became_of_ended_submissions(project: Project, ft: Ft, asked: Submission) -> None:
    finish(project.store, asked, SubmissionStatus.REJECTED, reason="task_gain: fail, no gain")
    shown = ft("status").stdout
    assert "rejected" in shown
    assert "task_gain: fail" in shown


def test_status_says_that_a_training_stopped_early(
    project: Project, ft: Ft, asked: Submission, made_later: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FACTS, "checkpoint", {**FACTS["checkpoint"], "steps": 5, "stopped_early": 5})
    made_later()
    finish(project.store, asked, SubmissionStatus.ACCEPTED)
    assert "stopped early, after step 5" in " ".join(ft("status", asked.id).stdout.split())
    (item,) = json.loads(ft("status", asked.id, "--json").stdout)
    assert item["stopped_early"] == 5


def test_status_says_what_the_first_step_of_a_training_waited_for(
    project: Project, ft: Ft, asked: Submission, made_later: Callable
) -> None:
    made_later()
    (address,) = [work.address for work in read_works(project.store, asked) if work.asset == "checkpoint"]
    assert address is not None
    attempt = Attempt(project.store, address, 1)
    attempt.claim("ann")
    attempt.write_launch({"launcher": "local"})
    began = attempt.launch()["at"] + 70
    start = {"since": began, "phases": {"loading model": began, "training": began + 30}, "first_step": began + 42}
    project.store.put_json(f"{attempt.path}/{START}", start)
    said = "first step after 1 min 52 s: start 1 min 10 s, loading model 30 s, first step 12 s"
    assert said in " ".join(ft("status", asked.id).stdout.split())
    (item,) = json.loads(ft("status", asked.id, "--json").stdout)
    assert [each["name"] for each in item["start"]] == ["start", "loading model", "first step"]
    # That it was trained for somebody who asked before is no wait of this submission.
    later = asked.model_copy(update={"created_at": "2100-01-01T00:00:00+00:00"})
    assert start_of(project.store, later, read_works(project.store, later)) == ()


def test_an_unknown_submission_is_a_users_mistake(ft: Ft, asked: Submission) -> None:
    for command in ("status", "logs", "cancel"):
        result = ft(command, "feedfeedfeedfeed")
        assert result.exit_code == 2
        assert "there is no submission 'feedfeedfeedfeed'" in result.stderr


def test_logs_are_found_by_submission_and_by_address(project: Project, ft: Ft, asked: Submission) -> None:
    assert "no output yet" in ft("logs", asked.id).stderr
    attempt = attempt_at_dataset(project.store)
    attempt.record_ending(Outcome.DONE)
    by_submission = ft("logs", asked.id)
    assert by_submission.stdout == "first line\nsecond line\n"
    assert str(attempt.address)[: -64 + 12] in by_submission.stderr
    assert ft("logs", attempt.address, "-f").stdout == "first line\nsecond line\n"


def test_cancel_records_the_end_and_stops_the_work(project: Project, ft: Ft, asked: Submission) -> None:
    attempt = attempt_at_dataset(project.store)
    assert ft("cancel", asked.id).exit_code == 0
    outcome = find_outcome(project.store, asked)
    assert outcome is not None
    assert outcome.status is SubmissionStatus.CANCELLED
    ending = attempt.ending()
    assert ending is not None
    assert ending.outcome is Outcome.CANCELLED
    assert attempt.stop_requested()
    assert "cancelled" in ft("status").stdout


def test_cancel_leaves_work_that_another_submission_needs(project: Project, ft: Ft, asked: Submission) -> None:
    ft("recipe", "add", project.recipe("other.v1"))
    ft("submit", DATASET, "other.v1")
    attempt = attempt_at_dataset(project.store)
    assert ft("cancel", asked.id).exit_code == 0
    assert attempt.ending() is None
    assert not attempt.stop_requested()


def test_what_has_ended_cannot_be_cancelled(project: Project, ft: Ft, asked: Submission) -> None:
    finish(project.store, asked, SubmissionStatus.ACCEPTED, adapter="acme/adapter/aa")
    result = ft("cancel", asked.id)
    assert result.exit_code == 2
    assert "it has ended already: accepted" in result.stderr


def test_the_view_shows_each_stage(project: Project, ft: Ft, asked: Submission) -> None:
    from rich.console import Console

    attempt_at_dataset(project.store)
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(render(asked, read_works(project.store, asked)))
    text = console.export_text()
    assert "curate dataset" in text
    assert "reading 40/160  loss 1.250  5,400 tokens/s  1 min 15 s left" in text
    assert "export adapter" in text


def test_an_estimate_says_what_it_stands_on(project: Project, ft: Ft, pair: Pair, made_later: Callable) -> None:
    rough = json.loads(ft("estimate", *pair, "--json").stdout)
    assert "guess" in rough["tokens_from"]
    assert rough["seconds"] is None
    assert rough["steps"] == 8
    made_later()
    exact = json.loads(ft("estimate", *pair, "--json").stdout)
    assert (exact["tokens_per_epoch"], exact["windows"]) == (4000, 40)
    # 40 windows in batches of 4 are 10 steps; the recipe stops after 8, so 3,200 tokens at 500 a second.
    assert (exact["steps_per_epoch"], exact["steps"], exact["tokens"]) == (10, 8, 3200)
    assert exact["seconds"] == pytest.approx(6.4)
    assert "last training on this base" in exact["seconds_from"]
    assert "about 6 s" in ft("estimate", *pair).stdout


def test_holdout_rows_given_with_a_submission_are_part_of_the_version_that_its_file_becomes(
    project: Project, ft: Ft, pair: Pair
) -> None:
    rows, held = project.dataset(), project.dataset(40, "held.jsonl")
    held.write_text(held.read_text().replace("colour", "shade"))
    done = ft("submit", str(rows), pair[1], "--name", "acme.measured", "--holdout", str(held))
    assert done.exit_code == 0, done.output
    raw = identity.raw_dataset(Artifacts(project.store), "acme.measured.v1")
    assert sum(raw.read(name) == held.read_bytes() for name in raw.manifest.files) == 1
    refused = ft("submit", *pair, "--holdout", str(held))
    assert refused.exit_code != 0
    assert "belong to a dataset version" in refused.output + str(refused.exception)


def test_a_key_for_another_pair_is_a_mistake_that_says_what_it_was_given_to_and_records_nothing(
    project: Project, ft: Ft, pair: Pair
) -> None:
    first = ft("submit", *pair, "--key", "nightly-7").stdout.strip()
    assert ft("submit", *pair, "--key", "nightly-7").stdout.strip() == first
    register_recipe(project.store, project.recipe("other.v1"), actor="ann")
    refused = ft("submit", pair[0], "other.v1", "--key", "nightly-7")
    assert refused.exit_code != 0
    said = refused.output + str(refused.exception)
    assert f"'nightly-7' was used for {DATASET} with {RECIPE}" in said
    assert first in said
    assert [submission.id for submission in open_submissions(project.store)] == [first]
    reserved = ft("submit", pair[0], "other.v1", "--key", "ask-1")
    assert "the platform itself" in reserved.output + str(reserved.exception)


def test_every_asset_of_the_pairs_is_requested_in_one_backfill(
    instance: dg.DagsterInstance, ft: Ft, pair: Pair
) -> None:
    done = ft("backfill", "--dataset", DATASET, "--recipe", RECIPE)
    (backfill,) = instance.get_backfills()
    assert done.stdout.strip() == backfill.backfill_id
    wanted = {
        (key.to_user_string(), partition)
        for key, partition in backfill.asset_backfill_data.target_subset.iterate_asset_partitions()
    }
    assert wanted == {
        *((asset, DATASET) for asset in ("raw_dataset", "dataset")),
        *((asset, RECIPE) for asset in ("base_model", "baseline_report")),
        *((asset, f"{DATASET}|{RECIPE}") for asset in ("token_pack", "checkpoint", "eval_report", "adapter")),
    }


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--recipe", RECIPE] * 2, "are 2 trainings, and the limit is 1"),
        (["--recipe", "nothing.v1"], "there is no recipe 'nothing.v1'"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_listed(
    instance: dg.DagsterInstance, ft: Ft, pair: Pair, monkeypatch: pytest.MonkeyPatch, asked: list[str], said: str
) -> None:
    monkeypatch.setenv("FT_MAX_PAIRS", "1")
    refused = ft("backfill", "--dataset", DATASET, *asked)
    assert (refused.exit_code, said in " ".join(refused.stderr.split())) == (2, True)
    assert not instance.get_backfills()
    assert not instance.get_dynamic_partitions("recipe")
