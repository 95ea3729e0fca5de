"""Execution: what is tried again, taken over and cancelled, with real worker processes doing small fake deeds."""

from dataclasses import replace

import psutil
import pytest

from ft_resources.artifacts import Address, Artifacts
from ft_resources.attempts import Attempt, attempts_at
from ft_resources.errors import WorkFailed
from ft_resources.execution import Execution, Observer
from ft_resources.launchers.base import LaunchState
from ft_resources.launchers.local import LocalLauncher
from ft_resources.outcomes import EXIT_CODES, POLICIES, Outcome, outcome_of_exit
from ft_resources.store import Store
from ft_resources.work import Resources, WorkRequest
from tests.cluster.fixtures import until
from tests.resources.small_work import Watcher, begun, in_thread, outcome, request_for

pytestmark = pytest.mark.subprocess


@pytest.mark.parametrize(
    ("how", "times", "attempts"),
    [("out_of_memory", 1, 2), ("platform", 1, 2), ("killed", 2, 3)],
)
def test_endings_that_may_pass_are_tried_again(execution: Execution, how: str, times: int, attempts: int) -> None:
    request = request_for("fail", how=how, times=times, runtime={"micro_batch_divisor": 1})
    result = execution.run(request, actor="t")
    assert result.attempts == attempts
    divisor = 2 if how == "out_of_memory" else 1
    assert result.artifact.read("runtime.txt").decode() == str({"micro_batch_divisor": divisor})


def test_a_divergence_is_raised_with_the_workers_words(execution: Execution) -> None:
    with pytest.raises(WorkFailed, match="NaN at step 3"):
        execution.run(request_for("fail", how="diverged", times=9), actor="t")


@pytest.mark.parametrize(("reached", "ends"), [([2, 3, 5], True), ([2, 3, 3], False)], ids=["gets on", "stands"])
def test_interruptions_are_counted_anew_where_training_got_on(
    execution: Execution, monkeypatch: pytest.MonkeyPatch, reached: list[int], ends: bool
) -> None:
    patience = replace(POLICIES[Outcome.PREEMPTED], retries=1, backoff_s=0.0)
    monkeypatch.setitem(POLICIES, Outcome.PREEMPTED, patience)
    request = request_for("train", reached=reached)
    if ends:
        assert execution.run(request, actor="t").attempts == len(reached) + 1
    else:
        with pytest.raises(WorkFailed, match="was stopped externally"):
            execution.run(request, actor="t")


def test_a_worker_that_changes_its_size_unasked_was_interrupted(
    execution: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(POLICIES, Outcome.PREEMPTED, replace(POLICIES[Outcome.PREEMPTED], retries=1, backoff_s=0.0))
    request = request_for("fail", how="resized", times=3)
    with pytest.raises(WorkFailed, match="was stopped externally"):
        execution.run(request, actor="t")
    assert len(attempts_at(execution.store, request.address)) == 2


def test_who_cancels_a_training_that_is_about_to_change_its_size_cancels_it(execution: Execution) -> None:
    request = request_for("write", text="x", runtime={"held": 1})
    thread, got = in_thread(lambda: execution.run(request, actor="t"))
    attempt = begun(execution.store, request)
    attempt.request_resize(4)
    attempt.request_stop("ann")
    # It had read the first request only.
    attempt.record_ending(Outcome.RESIZED)
    thread.join()
    assert "ann cancelled it" in str(got[0])
    assert len(attempts_at(execution.store, request.address)) == 1


def test_a_full_disk_is_named_with_the_place_and_what_to_do(execution: Execution) -> None:
    with pytest.raises(WorkFailed, match="the worker's disk is full") as failure:
        execution.run(request_for("fail", how="disk_full", times=9), actor="t")
    assert "FT_SCRATCH" in failure.value.remedy


@pytest.mark.parametrize(
    ("runtime", "attempts"),
    [
        ({"micro_batch_divisor": 1, "micro_batch_size": 1}, 1),
        ({"micro_batch_divisor": 1, "micro_batch_size": 2}, 2),
        ({}, 1),
    ],
    ids=["one window", "two windows", "no micro-batch"],
)
def test_out_of_memory_with_nothing_to_halve_is_not_tried_again(
    execution: Execution, runtime: dict[str, int], attempts: int
) -> None:
    request = request_for("fail", how="out_of_memory", times=9, runtime=runtime)
    with pytest.raises(WorkFailed, match="ran out of memory: too large"):
        execution.run(request, actor="t")
    assert len(attempts_at(execution.store, request.address)) == attempts


def test_out_of_memory_in_a_part_the_next_attempt_has_the_whole_gpu_and_only_then_half_the_micro_batch(
    execution: Execution,
) -> None:
    asked = request_for("fail", how="out_of_memory", times=2, runtime={"micro_batch_divisor": 1, "micro_batch_size": 2})
    request = replace(asked, resources=Resources(gpus=1, gpu_type="H100-1g.10gb", larger_gpu_type="H100"))
    watcher = Watcher()
    assert execution.run(request, actor="t", observer=watcher).attempts == 3
    specs = [execution.store.get_json(f"{each.path}/spec.json") for each in attempts_at(execution.store, asked.address)]
    assert [spec["resources"]["gpu_type"] for spec in specs] == ["H100-1g.10gb", "H100", "H100"]
    assert [spec["runtime"]["micro_batch_divisor"] for spec in specs] == [1, 1, 2]
    assert watcher.changes == ["on one H100", "with half the micro-batch"]


def test_out_of_memory_in_a_part_and_on_the_whole_gpu_ends_where_nothing_can_be_halved(execution: Execution) -> None:
    asked = request_for("fail", how="out_of_memory", times=9)
    request = replace(asked, resources=Resources(gpus=1, gpu_type="H100-1g.10gb", larger_gpu_type="H100"))
    with pytest.raises(WorkFailed, match="ran out of memory: too large"):
        execution.run(request, actor="t")
    assert len(attempts_at(execution.store, asked.address)) == 2


def test_a_claim_whose_claimer_died_before_launching_is_taken_over(execution: Execution) -> None:
    request = request_for("write", text="x")
    Attempt(execution.store, request.address, 1).claim("dead")
    assert replace(execution, lease_s=0.0).run(request, actor="b").artifact.facts == {"attempt": 2}


def test_the_log_of_a_worker_is_in_the_store(execution: Execution) -> None:
    request = request_for("fail", how="platform", times=9)
    with pytest.raises(WorkFailed, match="hiccuped"):
        execution.run(request, actor="t")
    attempts = attempts_at(execution.store, request.address)
    assert len(attempts) == 3
    assert "RuntimeError: the disk hiccuped" in attempts[-1].log()


def stop_unreached(execution: Execution, request: WorkRequest) -> Outcome | None:
    """Cancel with a launcher that cannot reach the worker; how the attempt ended."""

    class Elsewhere(LocalLauncher):
        def stop(self, attempt: Attempt, grace_s: float) -> None:
            return

        def clean_up(self, attempt: Attempt) -> None:
            return

    assert Execution(store=execution.store, launcher=Elsewhere()).cancel(request.address, actor="ann")
    return outcome(attempts_at(execution.store, request.address)[-1])


def test_a_worker_that_no_signal_reaches_stops_by_the_record(execution: Execution) -> None:
    """A cancel from another machine, or of a worker without a handle, left the worker running to its end."""
    request = request_for("write", text="x", runtime={"held": 1})
    thread, results = in_thread(lambda: execution.run(request, actor="a"))
    pid = begun(execution.store, request).launch()["pid"]
    assert stop_unreached(execution, request) is Outcome.CANCELLED
    thread.join()
    assert isinstance(results[0], WorkFailed)
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_work_that_was_cancelled_between_claim_and_launch_does_nothing(execution: Execution) -> None:
    request = request_for("write", text="x")
    launch = execution.launcher.launch

    def late(spec, attempt: Attempt) -> None:
        assert stop_unreached(execution, request) is Outcome.CANCELLED
        launch(spec, attempt)

    execution.launcher.launch = late  # type: ignore[method-assign]
    with pytest.raises(WorkFailed, match="was cancelled"):
        execution.run(request, actor="a")
    pid = attempts_at(execution.store, request.address)[-1].launch()["pid"]
    psutil.Process(pid).wait()
    assert not execution.store.exists(f"{request.address}/manifest.json")


def test_what_was_finished_while_somebody_looked_is_not_done_twice(
    execution: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_for("write", text="x")
    find, looks = Artifacts.find, []

    def find_too_early(self: Artifacts, address: Address):
        looks.append(find(self, address))
        if len(looks) == 1:
            execution.run(request, actor="other")
            return None
        return find(self, address)

    monkeypatch.setattr(Artifacts, "find", find_too_early)
    assert execution.run(request, actor="a").artifact.facts == {"attempt": 1}
    assert [attempt.launch() is not None for attempt in attempts_at(execution.store, request.address)] == [True, False]


def test_what_waits_in_a_queue_is_looked_for_ever_more_seldom_and_what_runs_each_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look reads the store three times, and 200 runs may wait for a day."""
    attempt = Attempt(store, request_for("write", text="x").address, 1)
    attempt.claim("a")
    now, pauses = [0.0], list[float]()
    monkeypatch.setattr("ft_resources.execution.time.monotonic", lambda: now[0])

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds
        if now[0] > 3600.0:
            store.put_json(f"{attempt.path}/progress.json", {"phase": "writing", "done": len(pauses)})
        if now[0] > 3630.0:
            attempt.record_ending(Outcome.DONE)

    class Queued(LocalLauncher):
        def state(self, attempt: Attempt) -> LaunchState:
            return LaunchState.RUNNING

    Execution(store=store, launcher=Queued(), poll_s=1.0, sleep=sleep)._wait(attempt, Observer())
    first_minute = [pause for at, pause in enumerate(pauses) if sum(pauses[:at]) < 60.0]
    assert len(pauses) < 450, "an hour of looks each second is 3,600"
    assert max(first_minute) <= 6.0, "whoever waited a minute is not kept waiting for much more"
    assert max(pauses) == 10.0
    assert pauses[-20:] == [1.0] * 20


def test_saves_go_once_the_artifact_is_there(execution: Execution) -> None:
    request = request_for("save")
    killed = Attempt(execution.store, request.address, 1)
    killed.claim("a")
    killed.record_ending(Outcome.PREEMPTED)
    execution.store.put(f"{killed.path}/saves/000001/model.safetensors", b"older weights")
    assert execution.run(request, actor="a").artifact.read("text.txt") == b"done"
    assert [entry.path for entry in execution.store.entries(str(request.address)) if "/saves/" in entry.path] == []


def test_every_ending_has_its_own_exit_code_and_unknown_codes_mean_killed() -> None:
    assert len(set(EXIT_CODES.values())) == len(Outcome)
    assert outcome_of_exit(-9) is Outcome.PREEMPTED
    assert outcome_of_exit(1) is Outcome.PREEMPTED
    assert all(outcome_of_exit(code) is outcome for outcome, code in EXIT_CODES.items())
