"""What a first step waited for, told of real workers on this machine and on a cluster."""

from typing import Any

import pytest

from ft_resources.attempts import FETCHED, START, Attempt, attempts_at
from ft_resources.first_step import Wait, waits_of
from ft_resources.kubernetes.placement import record_place
from ft_resources.store import Store
from tests.resources.kubernetes.specs import spec_of
from tests.resources.launchers.conftest import Place

DAY = "2027-01-15T"
SINCE = 1_800_000_000.0  # 2027-01-15T08:00:00Z


@pytest.mark.cluster
def test_a_workers_waits_are_told_from_its_launch_to_its_first_step(place: Place) -> None:
    request = place.request("write", text="x", runtime={"seconds": 0.3})
    place.execution().run(request, actor="t")
    (attempt,) = attempts_at(place.store, request.address)
    waits = waits_of(attempt)
    before = ["queue", "node", "image", "models", "worker"] if attempt.place() else ["start"]
    assert [each.name for each in waits] == [*before, "first step"]
    begun = (attempt.place() or {}).get("queued_at") or attempt.launch()["at"]
    took = attempt.steps()[0]["at"] - begun
    # Times of a cluster are whole seconds.
    assert sum(each.seconds for each in waits) == pytest.approx(took, abs=2.0)
    models = [each.fetched for each in waits if each.name == "models"]
    assert models == ([0] if attempt.place() else [])


@pytest.fixture
def attempt(store: Store) -> Attempt:
    """One whose worker began at SINCE and made its first step a minute later."""
    found = Attempt(store, spec_of().address, 1)
    found.write_launch({"launcher": "kubernetes"})
    phases = {"loading model": SINCE + 20, "training": SINCE + 50, "loading libraries": SINCE + 5}
    store.put_json(f"{found.path}/{START}", {"since": SINCE, "phases": phases, "first_step": SINCE + 60})
    store.put_json(f"{found.path}/{FETCHED}", {"bytes": 7})
    return found


def recorded(attempt: Attempt, *pods: dict[str, Any]) -> None:
    job = {
        "metadata": {"namespace": "ft-acme", "name": "j", "creationTimestamp": f"{DAY}07:00:00Z"},
        "spec": {"template": {"spec": {"containers": [{"name": "worker"}]}}},
        "status": {"startTime": f"{DAY}07:30:00Z"},
    }
    record_place(attempt, job, pods, None, cause="worker", refund="none", now=SINCE + 100)


def pod(name: str, scheduled: str, pulled: str, fetched: str) -> dict[str, Any]:
    state = {"terminated": {"startedAt": f"{DAY}{pulled}Z", "finishedAt": f"{DAY}{fetched}Z"}}
    said = {"type": "PodScheduled", "status": "True", "lastTransitionTime": f"{DAY}{scheduled}Z"}
    status = {"conditions": [said], "initContainerStatuses": [{"name": "fetch", "state": state}]}
    return {"metadata": {"name": name}, "spec": {}, "status": status}


def test_of_several_pods_each_wait_ends_with_the_last_one(attempt: Attempt) -> None:
    recorded(
        attempt,
        pod("first", "07:40:00", "07:45:00", "07:50:00"),
        pod("second", "07:41:00", "07:44:00", "07:55:00"),
    )
    assert waits_of(attempt) == (
        Wait(name="queue", seconds=1800),
        Wait(name="node", seconds=660),
        Wait(name="image", seconds=240),
        Wait(name="models", seconds=600, fetched=7),
        Wait(name="worker", seconds=300),
        Wait(name="loading libraries", seconds=20),
        Wait(name="loading model", seconds=30),
        Wait(name="first step", seconds=10),
    )


def test_a_clock_that_is_behind_makes_no_wait_negative(attempt: Attempt) -> None:
    recorded(attempt, pod("p", "07:40:00", "07:45:00", "08:00:02"))
    waits = {each.name: each.seconds for each in waits_of(attempt)}
    assert (waits["models"], waits["worker"], waits["loading libraries"]) == (902, 0, 18)


@pytest.mark.parametrize(
    "said",
    [
        b"no JSON",
        b"[]",
        b'{"since": 5, "phases": [], "first_step": 6}',
        b'{"since": "x", "phases": {}, "first_step": 6}',
        b'{"since": 5, "phases": {"a": null}, "first_step": 6}',
        b'{"since": 5, "phases": {}, "first_step": 1e300}',
        b'{"since": 5, "phases": {}}',
        b'{"since": 5, "phases": {"![x](https://evil.example)": 5}, "first_step": 6}',
        b'{"since": 5, "phases": {"\\u001b[2J": 5}, "first_step": 6}',
        b'{"since": 5, "phases": {"": 5}, "first_step": 6}',
    ],
)
def test_what_a_worker_could_not_have_written_is_not_told(attempt: Attempt, said: bytes) -> None:
    attempt.store.put(f"{attempt.path}/{START}", said)
    assert waits_of(attempt) == ()


def test_nothing_is_told_before_the_first_step_and_of_trainings_from_before_this_was_recorded(store: Store) -> None:
    attempt = Attempt(store, spec_of().address, 1)
    attempt.write_launch({"launcher": "local"})
    assert waits_of(attempt) == ()


def test_more_bytes_than_any_number_can_show_are_not_told(attempt: Attempt) -> None:
    recorded(attempt, pod("p", "07:40:00", "07:45:00", "07:50:00"))
    attempt.store.put(f"{attempt.path}/{FETCHED}", b'{"bytes": 1%s}' % (b"0" * 400))
    assert [each.fetched for each in waits_of(attempt)] == [None] * 8
