"""Pausing, resuming and what each says, over records and attempts that the tests write."""

from contextlib import suppress

import dagster as dg
import pytest

from ft_assets.control.submissions.plan import Launch, RunState
from ft_assets.control.submissions.works import read_works
from ft_assets.graph.jobs.pauses import pause_job, resume_job
from ft_assets.graph.run import drive
from ft_assets.records.pauses import read_pauses, record_pause, record_resumption
from ft_assets.records.submissions import Submission, SubmissionOutcome, SubmissionStatus, find_outcome, finish
from ft_resources.attempts import Attempt
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.errors import SubmissionPaused
from ft_resources.execution import Execution, RunResult
from ft_resources.outcomes import Outcome
from ft_resources.store import Store
from ft_resources.work import WorkRequest
from tests.cli.conftest import DATASET, Ft
from tests.cli.test_runs_in_terminal import Pair, in_terminal
from tests.cli.test_submissions import asked as asked
from tests.cli.test_submissions import attempt_at_dataset
from tests.e2e.project import Project

pytestmark = pytest.mark.dagster


def test_a_pause_stops_the_work_and_leaves_the_submission_open_until_it_is_resumed(
    project: Project, ft: Ft, asked: Submission
) -> None:
    attempt = attempt_at_dataset(project.store)
    paused = ft("pause", asked.id, "--reason", "the GPUs are needed")
    assert (paused.exit_code, paused.stdout) == (0, f"paused {asked.id}\n")
    assert "stopped 0 runs and 1 workers" in paused.stderr
    assert f"ft resume {asked.id}" in paused.stderr
    ending = attempt.ending()
    assert ending is not None
    assert ending.outcome is Outcome.CANCELLED
    assert attempt.stop_requested()
    assert find_outcome(project.store, asked) is None
    shown = " ".join(ft("status", asked.id).stdout.split())
    assert "paused" in shown
    assert "the GPUs are needed" in shown
    assert f"ft resume {asked.id}" in shown
    # Nobody waits for more of its log.
    assert "ft resume" in ft("logs", asked.id, "-f").stderr
    again = ft("pause", asked.id)
    assert (again.exit_code, "already paused by" in again.stdout) == (0, True)
    resumed = ft("resume", asked.id)
    assert (resumed.exit_code, resumed.stdout) == (0, f"resumed {asked.id}\n")
    assert "a running Dagster" in resumed.stderr
    assert "queued" in ft("status", asked.id).stdout
    assert ft("resume", asked.id).stdout == "not paused\n"


def test_the_jobs_of_the_ui_pause_and_resume(
    project: Project, instance: dg.DagsterInstance, asked: Submission, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FT_ACTOR", "bob")
    resources = {"store": StoreResource(url=project.store_url), "launcher": LauncherResource()}

    def run(job: dg.JobDefinition, op: str, **config: str) -> bool:
        given = {"ops": {op: {"config": {"submission": asked.id, **config}}}}
        return bool(job.execute_in_process(given, resources=resources, instance=instance).output_for_node(op))

    assert run(pause_job, "pause_submission", reason="lunch")
    assert not run(pause_job, "pause_submission")
    standing = read_pauses(project.store, asked).standing
    assert standing is not None
    assert (standing.actor, standing.reason) == ("bob (in Dagster)", "lunch")
    assert run(resume_job, "resume_submission")
    assert read_pauses(project.store, asked).resumed == 1


def test_a_pause_leaves_work_that_another_submission_needs_and_says_so(
    project: Project, ft: Ft, asked: Submission
) -> None:
    ft("recipe", "add", project.recipe("other.v1"))
    other = ft("submit", DATASET, "other.v1").stdout.strip()
    attempt = attempt_at_dataset(project.store)
    paused = ft("pause", asked.id)
    assert "stopped 0 runs and 0 workers" in paused.stderr
    assert "another submission needs acme/dataset/" in paused.stderr
    assert attempt.ending() is None
    # Once that one is paused too, nobody needs it now.
    ft("pause", other)
    assert attempt.stop_requested()


def test_what_has_ended_cannot_be_paused_or_resumed(project: Project, ft: Ft, asked: Submission) -> None:
    finish(project.store, asked, SubmissionStatus.ACCEPTED, adapter="acme/adapter/aa")
    for command in ("pause", "resume"):
        result = ft(command, asked.id)
        assert result.exit_code == 2
        assert "it has ended already: accepted" in result.stderr
    assert read_pauses(project.store, asked).changes == 0
    assert "there is no submission" in ft("pause", "feedfeedfeedfeed").stderr


def test_a_paused_submission_can_be_cancelled(project: Project, ft: Ft, asked: Submission) -> None:
    ft("pause", asked.id)
    assert ft("cancel", asked.id).exit_code == 0
    assert "cancelled" in ft("status", asked.id).stdout


def test_asking_for_a_paused_pair_again_says_that_it_is_paused_and_starts_nothing(
    project: Project, ft: Ft, asked: Submission, pair: Pair
) -> None:
    ft("pause", asked.id, "--reason", "lunch")
    assert f"lunch. To continue: ft resume {asked.id}" in ft("submit", *pair).stderr
    run = ft("run", *pair)
    assert run.exit_code == 5
    assert "lunch" in run.stdout
    assert f"ft resume {asked.id}" in run.stderr
    assert [work.attempt for work in read_works(project.store, asked)] == [0] * 7


def test_submitting_what_is_paused_does_not_say_that_a_process_is_at_it(project: Project, ft: Ft, pair: Pair) -> None:
    record_pause(project.store, in_terminal(project), actor="bob", reason="")
    said = ft("submit", *pair, "--key", "terminal").stderr
    assert "it is paused by bob. To continue: ft resume" in said
    assert f"and then: ft run {' '.join(pair)} --key terminal" in said
    assert "working on it" not in said


def test_a_run_in_a_terminal_that_is_paused_between_two_pieces_of_work_ends_and_starts_no_more(
    project: Project, pair: Pair, instance: dg.DagsterInstance
) -> None:
    """It has no worker to stop, and Dagster cannot end it."""
    submission, launched = in_terminal(project), list[str]()

    def pause(launch: Launch) -> None:
        launched.append(launch.stage)
        record_pause(project.store, submission, actor="bob", reason="")

    with pytest.raises(SubmissionPaused, match="paused by bob"):
        drive(project.store, instance, submission, on_launch=pause)
    assert launched == ["prepare_dataset"]
    assert find_outcome(project.store, submission) is None
    assert [work.attempt for work in read_works(project.store, submission)] == [0] * 7


def test_a_run_in_a_terminal_goes_on_where_it_is_resumed_before_it_saw_the_pause(
    project: Project, pair: Pair, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that the pause stopped has failed, which would be the end of the submission."""
    submission, keys = in_terminal(project), list[str]()

    def stopped(_store: Store, _instance: object, launch: Launch, *_: object) -> RunState:
        keys.append(launch.run_key.removeprefix(f"{submission.id}:"))
        if len(keys) == 1:
            record_pause(project.store, submission, actor="bob", reason="")
            record_resumption(project.store, submission, actor="ann")
        else:
            finish(project.store, submission, SubmissionStatus.CANCELLED, reason="enough")
        return RunState.FAILED

    monkeypatch.setattr("ft_assets.graph.run._execute", stopped)
    assert drive(project.store, instance, submission).reason == "enough"
    assert keys == ["prepare_dataset", "prepare_dataset:resumed-1"]


def test_an_interrupt_of_a_run_that_is_paused_loses_nothing(
    project: Project, pair: Pair, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pause ends the runs of Dagster as their cancel button does, and the submission stays open."""
    submission = in_terminal(project)

    def interrupted(self: Execution, request: WorkRequest, **_: object) -> RunResult:
        Attempt(project.store, request.address, 1).claim("ann")
        record_pause(project.store, submission, actor="bob", reason="")
        raise KeyboardInterrupt

    monkeypatch.setattr(Execution, "run", interrupted)
    with suppress(KeyboardInterrupt), pytest.raises(SubmissionPaused):
        drive(project.store, instance, submission)
    assert find_outcome(project.store, submission) is None


def test_a_run_that_is_paused_ends_with_an_exit_code_of_its_own(
    ft: Ft, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drive(_store: Store, _instance: object, submission: Submission, **_: object) -> SubmissionOutcome:
        raise SubmissionPaused("paused by bob: lunch", where=submission.id, remedy="ft resume it")

    monkeypatch.setattr("ft_assets.graph.orchestrator.drive", drive)
    result = ft("run", *pair)
    assert (result.exit_code, result.stdout) == (5, "paused by bob: lunch\n")
    assert "ft resume it" in result.stderr
    assert "Error" not in result.stderr
