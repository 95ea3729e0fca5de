"""What every launcher promises, on each of them: with real worker processes doing small fake deeds."""

import pytest

from ft_resources.attempts import Attempt, attempts_at
from ft_resources.errors import BadData, WorkFailed
from ft_resources.execution import Observer
from ft_resources.launchers.base import Launcher, LaunchState
from ft_resources.outcomes import Outcome
from tests.cluster.fixtures import until
from tests.resources.launchers.conftest import Place, gone
from tests.resources.small_work import Watcher, claimed, in_thread, let_go, outcome

pytestmark = pytest.mark.cluster


def launched(place: Place, asset: str = "write", phase: str = "writing", **params: object) -> tuple[Launcher, Attempt]:
    """An attempt whose worker says that it is in ``phase``, and the launcher that started it."""
    request = place.request(asset, runtime={"held": 1}, **params)
    launcher, (spec, attempt) = place.launcher(), claimed(place.store, request)
    launcher.launch(spec, attempt)
    until(lambda: attempt.progress().get("phase") == phase)
    return launcher, attempt


def test_work_runs_once_and_is_reused(place: Place) -> None:
    request, watcher = place.request("write", text="hello", runtime={"seconds": 0.8}), Watcher()
    execution = place.execution()
    result = execution.run(request, actor="t", observer=watcher)
    assert result.artifact.read("text.txt") == b"hello"
    assert not result.cached
    assert watcher.chunks == sorted(set(watcher.chunks))
    assert watcher.chunks
    assert execution.run(request, actor="t").cached
    (attempt,) = attempts_at(place.store, request.address)
    gone(place, attempt)


def test_a_worker_is_seen_from_its_launch_to_its_end_by_any_process(place: Place) -> None:
    spec, attempt = claimed(place.store, place.request("fail", how="diverged", times=9))
    mine, other = place.launcher(), place.launcher()
    assert other.state(attempt) is LaunchState.UNKNOWN
    mine.launch(spec, attempt)
    until(lambda: mine.state(attempt) is LaunchState.GONE)
    until(lambda: other.state(attempt) is LaunchState.GONE)
    assert mine.ending(attempt).outcome is Outcome.DIVERGED  # type: ignore[union-attr]


def test_what_another_launcher_started_is_unknown_and_left_alone(place: Place) -> None:
    _, attempt = claimed(place.store, place.request("write", text="x"))
    attempt.write_launch({"launcher": "elsewhere", "host": "nowhere", "pid": 1})
    launcher = place.launcher()
    assert launcher.state(attempt) is LaunchState.UNKNOWN
    launcher.stop(attempt, 0.1)
    launcher.clean_up(attempt)


def test_a_living_worker_is_not_cleaned_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ft_resources.launchers.kubernetes._SETTLE_S", 0.2)
    launcher, attempt = launched(place, text="x")
    launcher.clean_up(attempt)
    assert place.launcher().state(attempt) is LaunchState.RUNNING
    launcher.stop(attempt, 20.0)


def test_a_stopped_worker_ends_by_itself_and_is_gone_when_stop_returns(place: Place) -> None:
    launcher, attempt = launched(place, text="x")
    attempt.request_stop("t")
    launcher.stop(attempt, 20.0)
    assert not place.lives(attempt)
    assert launcher.state(attempt) is LaunchState.GONE
    assert outcome(attempt) is Outcome.CANCELLED


def test_a_worker_that_is_to_have_other_gpus_ends_by_itself_and_a_person_who_cancels_is_heard_first(
    place: Place,
) -> None:
    _, attempt = launched(place, text="x")
    attempt.request_resize(2)
    ending = until(attempt.ending)
    assert ending.outcome is attempt.stopped_as() is Outcome.RESIZED
    gone(place, attempt)
    attempt.request_stop("t")
    assert attempt.stopped_as() is Outcome.CANCELLED
    attempt.request_resize(4)
    assert attempt.stopped_as() is Outcome.CANCELLED


def test_a_worker_that_does_not_hear_is_ended_when_its_grace_is_over(place: Place) -> None:
    launcher, attempt = launched(place, "hang", "hanging")
    launcher.stop(attempt, 0.2)
    gone(place, attempt)
    assert launcher.state(attempt) is LaunchState.GONE


def test_a_killed_worker_leaves_its_last_words_and_is_followed_by_the_next_attempt(place: Place) -> None:
    request, watcher = place.request("fail", how="killed", times=1), Watcher()
    place.execution().run(request, actor="a", observer=watcher)
    first, _ = attempts_at(place.store, request.address)
    assert first.log() == "last words\n"
    assert outcome(first) is Outcome.PREEMPTED
    assert watcher.retries == 1


def test_another_orchestrator_attaches_to_a_living_worker(place: Place) -> None:
    request = place.request("write", text="x", runtime={"held": 1})

    class Died(BaseException):
        pass

    def die_after_start(_seconds: float) -> None:
        if attempts_at(place.store, request.address)[-1].progress().get("phase") == "writing":
            raise Died

    with pytest.raises(Died):
        place.execution(sleep=die_after_start).run(request, actor="a")
    watcher = Watcher()
    let_go(place.store)
    result = place.execution().run(request, actor="b", observer=watcher)
    assert watcher.attached == [True]
    assert result.artifact.facts == {"attempt": 1}


def test_two_callers_share_one_worker(place: Place) -> None:
    request = place.request("write", text="x", runtime={"seconds": 0.5})
    one, got_one = in_thread(lambda: place.execution().run(request, actor="a"))
    two, got_two = in_thread(lambda: place.execution().run(request, actor="b"))
    one.join()
    two.join()
    assert got_one[0].artifact.manifest == got_two[0].artifact.manifest
    assert len(attempts_at(place.store, request.address)) == 1


def test_cancel_stops_the_worker_and_is_not_retried_until_somebody_asks_again(place: Place) -> None:
    request = place.request("write", text="x", runtime={"held": 1})
    execution = place.execution()
    thread, got = in_thread(lambda: execution.run(request, actor="a"))
    attempt = place.begun(request)
    assert execution.cancel(request.address, actor="a")
    thread.join()
    assert isinstance(got[0], WorkFailed)
    assert "was cancelled" in str(got[0])
    assert not place.lives(attempt)
    assert not execution.cancel(request.address, actor="a")
    assert execution.run(request, actor="a").artifact.facts == {"attempt": 2}


def test_an_ending_that_would_repeat_is_raised_with_the_workers_words(place: Place) -> None:
    with pytest.raises(BadData, match="row 7: a row is wrong"):
        place.execution().run(place.request("fail", how="bad_data", times=9), actor="t")


def test_a_worker_that_ended_while_nobody_watched_is_followed_by_the_next_attempt(place: Place) -> None:
    request = place.request("fail", how="killed", times=1)
    spec, attempt = claimed(place.store, request)
    place.launcher().launch(spec, attempt)
    until(lambda: place.launcher().state(attempt) is LaunchState.GONE)
    result = place.execution().run(request, actor="a", observer=Observer())
    assert len(attempts_at(place.store, request.address)) == 2
    assert result.artifact.read("runtime.txt")
