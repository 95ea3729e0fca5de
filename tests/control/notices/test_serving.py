"""Notices of rollouts and of drift: who is told of what is served."""

from datetime import UTC, datetime

import pytest

from ft_assets.control.notices.serving_drift import FOLDER, QUIET_S, DriftWatch
from ft_assets.control.rollouts.rollouts import RolloutLost, append
from ft_assets.control.serving.status import ServingStatus
from ft_resources.store import Store
from tests.control.notices.servers import Hook
from tests.control.notices.world import Tell, bodies, kinds
from tests.control.rollouts.made import made_rollout

ACME, OTHER = "acme.a.tiny@11 is not on one, and should be", "other.b.tiny@22 is not on one, and should be"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def seen(*drift: str, trouble: str = "") -> ServingStatus:
    return ServingStatus(at=datetime.now(UTC).isoformat(), drift=drift, trouble=trouble)


def test_each_decision_about_a_rollout_is_told_with_its_reason(
    store: Store, hooks: dict[str, Hook], tick: Tell
) -> None:
    started = append(store, made_rollout("started", 5))
    tick()
    append(store, made_rollout("rolled_back", 0, after=started, reason="thumbs: the candidate is worse"))
    tick()
    tick()
    first, last = bodies(hooks["acme"])
    assert (first["kind"], first["subject"], first["facts"]["weight"]) == ("rollout", started.line, "5 %")
    assert last["facts"]["state"] == "rolled back"
    assert last["details"] == ["thumbs: the candidate is worse"]
    assert last["title"] == f"{started.line}: its candidate was taken back"
    assert bodies(hooks["other"]) == []


def test_a_decision_that_lost_its_place_is_not_told(store: Store, hooks: dict[str, Hook], tick: Tell) -> None:
    append(store, made_rollout("started", 5))
    with pytest.raises(RolloutLost):
        append(store, made_rollout("started", 25))
    tick()
    assert [body["facts"]["weight"] for body in bodies(hooks["acme"])] == ["5 %"]


def test_drift_and_its_end_are_told_once_each_to_whose_lines_they_are(
    store: Store, hooks: dict[str, Hook], tick: Tell, clock: Clock
) -> None:
    watch = DriftWatch(store, clock=clock)
    for _ in range(3):
        watch.look(seen(ACME))
        tick()
    assert kinds(hooks["acme"]) == ["drift"]
    assert bodies(hooks["acme"])[0]["details"] == [ACME]
    assert bodies(hooks["other"]) == []
    watch.look(seen(ACME, OTHER))
    tick()
    tick()
    assert [body["details"] for body in bodies(hooks["other"])] == [[OTHER]]
    watch.look(seen())
    tick()
    tick()
    assert bodies(hooks["other"])[-1]["facts"] == {"state": "recovered"}
    assert watch.look(seen()) is None


def test_two_servers_of_the_api_that_see_the_same_tell_it_once(store: Store, clock: Clock) -> None:
    one, other = DriftWatch(store, clock=clock), DriftWatch(store, clock=clock)
    for status in (seen(ACME), seen(ACME), seen(), seen(), seen(ACME)):
        one.look(status)
        other.look(status)
    assert len(store.names(FOLDER)) == 3


def test_a_process_that_was_started_anew_tells_the_end_of_drift_that_another_began(store: Store, clock: Clock) -> None:
    DriftWatch(store, clock=clock).look(seen(ACME))
    anew = DriftWatch(store, clock=clock)
    # Its own drift would be known only after a minute.
    assert anew.look(seen()) is None
    clock.now += QUIET_S
    change = anew.look(seen())
    assert change is not None
    assert change.state == "recovered"
    assert anew.look(seen()) is None


def test_while_the_store_is_away_nothing_is_known_to_be_over(store: Store, clock: Clock) -> None:
    watch = DriftWatch(store, clock=clock)
    watch.look(seen(ACME))
    assert watch.look(seen(trouble="the store cannot be read")) is None
    assert len(store.names(FOLDER)) == 1
