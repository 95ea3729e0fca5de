"""Asking, watching, reading logs and cancelling, over records and attempts that the tests write."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import dagster as dg
import pytest

from ft_assets.cli.live import render
from ft_assets.control import identity
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.submissions.plan import Launch
from ft_assets.control.submissions.submit import submit
from ft_assets.control.submissions.works import read_works
from ft_assets.graph.run import drive
from ft_assets.records.failures import Failure
from ft_assets.records.submissions import (
    Submission,
    SubmissionOutcome,
    SubmissionStatus,
    find_outcome,
    finish,
    open_submissions,
    resubmit_key,
)
from ft_assets.settings.tenants import load_tenants
from ft_resources.artifacts import Address, Artifacts
from ft_resources.attempts import Attempt
from ft_resources.canonical import canonical_json
from ft_resources.errors import UserError
from ft_resources.execution import Execution, RunResult
from ft_resources.outcomes import Outcome
from ft_resources.run_processes import process_tag
from ft_resources.store import Store
from ft_resources.work import WorkRequest
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
    waits = "waits: a running Dagster launches it"
    assert waits in ft("status", asked.id).stdout
    assert waits in ft("status").stdout
    later = asked.model_copy(update={"id": "f" * 16, "created_at": "2999-01-01T00:00:00+00:00"})
    for path in (later.path, later.marker):
        project.store.put(path, canonical_json(later.model_dump(mode="json")))
    assert json.loads(ft("status", later.id, "--json").stdout)[0]["detail"] == (
        "waits: 1 earlier submission is open; a running Dagster launches it"
    )
    (tmp_path / "tenants.yaml").write_text("tenants: {acme: {quota: {concurrent: 1}}}\n")
    monkeypatch.setenv("FT_TENANTS", str(tmp_path / "tenants.yaml"))
    newest = json.loads(ft("status", "--json").stdout)[0]
    assert newest["detail"].startswith("waits: 1 earlier submission is open, and 1 may train at once; ")
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


def test_an_unknown_submission_is_a_users_mistake(ft: Ft, asked: Submission) -> None:
    for command in ("status", "logs", "cancel"):
        result = ft(command, "feedfeedfeedfeed")
        assert result.exit_code == 2
        assert "there is no submission 'feedfeedfeedfeed'" in result.stderr


def test_logs_are_found_by_submission_and_by_address(project: Project, ft: Ft, asked: Submission) -> None:
    assert "no worker has written anything yet" in ft("logs", asked.id).stderr
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


def in_terminal(project: Project) -> Submission:
    """A submission of the pair as ``ft run`` records it."""
    wish: dict[str, str] = {"dataset": DATASET, "recipe": RECIPE, "actor": "ann", "idempotency_key": "terminal"}
    return submit(project.store, load_tenants(), origin="cli", driver="caller", **wish)[0]  # type: ignore[arg-type]


def test_a_run_in_a_terminal_starts_no_more_work_once_it_is_cancelled(
    project: Project, pair: Pair, instance: dg.DagsterInstance
) -> None:
    """Cancelled between two pieces of work, it had no worker to stop, and went on to train."""
    submission = in_terminal(project)

    def cancel(_: Launch) -> None:
        finish(project.store, submission, SubmissionStatus.CANCELLED, reason="cancelled by bob")

    assert drive(project.store, instance, submission, on_launch=cancel).reason == "cancelled by bob"
    works = read_works(project.store, submission)
    assert [work.attempt for work in works if work.asset != "raw_dataset"] == [0] * len(works)


@pytest.mark.parametrize("shared", [True, False])
def test_an_interrupted_run_stops_its_work_unless_another_submission_needs_it(
    project: Project, ft: Ft, pair: Pair, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """Cancelling a run in the UI failed whoever waited for the same base model or dataset."""
    if shared:
        ft("recipe", "add", project.recipe("other.v1"))
        ft("submit", DATASET, "other.v1")
    attempts: list[Attempt] = []

    def interrupted(self: Execution, request: WorkRequest, **_: object) -> RunResult:
        attempts.append(Attempt(project.store, request.address, 1))
        attempts[-1].claim("ann")
        # What Dagster makes of a Ctrl-C.
        raise dg.DagsterExecutionInterruptedError

    monkeypatch.setattr(Execution, "run", interrupted)
    assert drive(project.store, instance, in_terminal(project)).status is SubmissionStatus.CANCELLED
    assert attempts[0].address.asset == "dataset"
    assert attempts[0].stop_requested() is not shared
    (run,) = instance.get_runs()
    assert run.status is dg.DagsterRunStatus.CANCELED, "the checks that a failed run did not reach are red"


def test_a_run_whose_submission_is_cancelled_from_elsewhere_is_cancelled_and_not_failed(
    project: Project, pair: Pair, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = in_terminal(project)

    def stopped(self: Execution, request: WorkRequest, **_: object) -> RunResult:
        finish(project.store, submission, SubmissionStatus.CANCELLED, reason="cancelled by bob")
        raise UserError("its worker was stopped", where="dataset", remedy="Ask again.")

    monkeypatch.setattr(Execution, "run", stopped)
    assert drive(project.store, instance, submission).status is SubmissionStatus.CANCELLED
    (run,) = instance.get_runs()
    assert run.status is dg.DagsterRunStatus.CANCELED


def test_a_second_interrupt_does_not_keep_the_worker_from_being_stopped(
    project: Project, pair: Pair, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`timeout` signals a process and then its group: the training of a cancelled submission went on unseen."""
    attempts: list[Attempt] = []

    def interrupted(self: Execution, request: WorkRequest, **_: object) -> RunResult:
        attempts.append(Attempt(project.store, request.address, 1))
        attempts[-1].claim("ann")
        raise KeyboardInterrupt

    def again(self: Execution, address: Address, *, actor: str) -> bool:
        signal.raise_signal(signal.SIGTERM)
        return cancel(self, address, actor=actor)

    cancel = Execution.cancel
    monkeypatch.setattr(Execution, "run", interrupted)
    monkeypatch.setattr(Execution, "cancel", again)
    with suppress(KeyboardInterrupt):
        drive(project.store, instance, in_terminal(project))
    assert attempts[0].stop_requested()


def test_what_has_ended_cannot_be_cancelled(project: Project, ft: Ft, asked: Submission) -> None:
    finish(project.store, asked, SubmissionStatus.ACCEPTED, adapter="acme/adapter/aa")
    result = ft("cancel", asked.id)
    assert result.exit_code == 2
    assert "it has ended already: accepted" in result.stderr


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (SubmissionStatus.FAILED, 1, "train_pair failed"),
        (SubmissionStatus.CANCELLED, 130, "cancelled"),
    ],
)
def test_run_ends_with_the_exit_code_of_its_outcome(
    ft: Ft, pair: Pair, monkeypatch: pytest.MonkeyPatch, status: SubmissionStatus, code: int, words: str
) -> None:
    def drive(store: Store, _instance: object, submission: Submission, **_: object) -> SubmissionOutcome:
        failure = Failure(asset="dataset", cause=words, blame="user", where="row 7", remedy="fix it")
        failed = status is SubmissionStatus.FAILED
        return finish(store, submission, status, reason=words, failure=failure if failed else None)

    monkeypatch.setattr("ft_assets.graph.orchestrator.drive", drive)
    result = ft("run", *pair)
    assert result.exit_code == code
    assert words in result.stdout
    assert ("where: row 7" in result.stdout) == (status is SubmissionStatus.FAILED)


def test_ctrl_c_of_a_run_is_a_cancel(project: Project, ft: Ft, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> SubmissionOutcome:
        raise KeyboardInterrupt

    monkeypatch.setattr("ft_assets.graph.orchestrator.drive", interrupted)
    assert ft("run", *pair).exit_code == 130
    assert list(open_submissions(project.store)) == []


def test_submitting_what_a_foreground_run_is_at_says_so(project: Project, ft: Ft, pair: Pair) -> None:
    key = resubmit_key(project.store, DATASET, RECIPE)
    submit(
        project.store,
        load_tenants(),
        dataset=DATASET,
        recipe=RECIPE,
        actor="ann",
        origin="cli",
        driver="caller",
        idempotency_key=key,
    )
    assert "an ft run is working on it already" in ft("submit", *pair).stderr


def test_a_run_whose_process_was_killed_is_stopped_and_can_be_gone_on_with(
    project: Project, ft: Ft, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise SystemExit(137)

    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    tag = process_tag(child.pid)
    monkeypatch.setattr("ft_assets.graph.orchestrator.drive", killed)
    monkeypatch.setattr("ft_assets.api.finetunes.process_tag", lambda: tag)
    ft("run", *pair)
    (asked,) = open_submissions(project.store)
    assert "stopped" not in ft("status").stdout
    child.kill()
    child.wait()
    for shown in (ft("status").output, ft("status", asked.id).output, ft("logs", asked.id, "--follow").output):
        assert "stopped" in shown
        assert f"(process {child.pid} on " in shown
        assert f"ft run {DATASET} {RECIPE}" in shown
    monkeypatch.setattr("ft_assets.api.finetunes.process_tag", process_tag)
    ft("run", *pair)
    assert [each.id for each in open_submissions(project.store)] == [asked.id]
    assert "stopped" not in ft("status").stdout


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
