"""A run in the foreground: cancelled, interrupted, killed, and how it ends."""

import signal
import subprocess
import sys
from contextlib import suppress

import dagster as dg
import pytest

from ft_assets.control.submissions.plan import Launch
from ft_assets.control.submissions.submit import submit
from ft_assets.control.submissions.works import read_works
from ft_assets.graph.run import drive
from ft_assets.records.failures import Failure
from ft_assets.records.submissions import (
    Submission,
    SubmissionOutcome,
    SubmissionStatus,
    finish,
    open_submissions,
    resubmit_key,
)
from ft_assets.settings.tenants import load_tenants
from ft_resources.artifacts import Address
from ft_resources.attempts import Attempt
from ft_resources.errors import UserError
from ft_resources.execution import Execution, RunResult
from ft_resources.run_processes import process_tag
from ft_resources.store import Store
from ft_resources.work import WorkRequest
from tests.cli.conftest import DATASET, RECIPE, Ft
from tests.e2e.project import Project

pytestmark = pytest.mark.dagster

Pair = tuple[str, str]


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


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [(SubmissionStatus.FAILED, 1, "train_pair failed"), (SubmissionStatus.CANCELLED, 130, "cancelled")],
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
    assert "an ft run process is already working on it" in ft("submit", *pair).stderr


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
