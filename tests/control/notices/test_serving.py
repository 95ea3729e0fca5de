"""Waits that are too long, rollouts and drift: told once, and their end once."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.notices.queue_alerts import QueueChange, Wait, change, queue_event, record_waits
from ft_assets.control.notices.serving_drift import FOLDER, QUIET_S, DriftWatch
from ft_assets.control.rollouts.rollouts import RolloutLost, append
from ft_assets.control.serving.status import ServingStatus
from ft_assets.records.due_notices import markers, read_markers
from ft_resources.canonical import canonical_json
from ft_resources.store import Store
from tests.clock import Clock
from tests.control.notices.servers import Hook
from tests.control.notices.world import Tell, bodies, kinds
from tests.control.rollouts.made import made_rollout

ACME, OTHER = "acme.a.tiny@11 is not on one, and should be", "other.b.tiny@22 is not on one, and should be"


@pytest.fixture
def clock() -> Clock:
    return Clock()


def seen(*drift: str, trouble: str = "") -> ServingStatus:
    return ServingStatus(at=datetime.now(UTC).isoformat(), drift=drift, trouble=trouble)


def test_each_decision_about_a_rollout_is_told_with_its_reason(store, hooks, tick) -> None:
    started = append(store, made_rollout("started", 5))
    tick()
    append(store, made_rollout("rolled_back", 0, after=started, reason="thumbs: the candidate is worse"))
    tick()
    tick()
    first, last = bodies(hooks["acme"])
    assert (first["kind"], first["subject"], first["facts"]["weight"]) == ("rollout", started.line, "5 %")
    assert last["facts"]["state"] == "rolled back"
    assert last["details"] == ["thumbs: the candidate is worse"]
    assert last["title"] == f"{started.line}: its candidate was rolled back"
    assert bodies(hooks["other"]) == []


def test_a_decision_that_lost_its_place_is_not_told(store: Store, hooks: dict[str, Hook], tick: Tell) -> None:
    append(store, made_rollout("started", 5))
    with pytest.raises(RolloutLost):
        append(store, made_rollout("started", 25))
    tick()
    assert [body["facts"]["weight"] for body in bodies(hooks["acme"])] == ["5 %"]


def test_drift_and_its_end_are_told_once_each_to_whose_lines_they_are(store, hooks, tick, clock) -> None:
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
    assert change.state == "recovered"
    assert anew.look(seen()) is None


def test_while_the_store_is_away_nothing_is_known_to_be_over(store: Store, clock: Clock) -> None:
    watch = DriftWatch(store, clock=clock)
    watch.look(seen(ACME))
    assert watch.look(seen(trouble="the store cannot be read")) is None
    assert len(store.names(FOLDER)) == 1


def waits(*minutes: float) -> list[Wait]:
    return [Wait(submission=f"{number:016x}", seconds=60 * each) for number, each in enumerate(minutes)]


@given(st.lists(st.lists(st.floats(0, 20), max_size=4), max_size=20))
def test_breaches_and_recoveries_alternate_and_begin_with_a_breach(ticks: list[list[float]]) -> None:
    before, told = None, []
    for tick in ticks:
        found = change(before, "premium", 5, waits(*tick))
        broken = any(60 * each > 300 for each in tick)
        before = found or before
        told += [found.state] if found else []
        assert (before is not None and before.state == "breach") == broken
    assert told == [("breach", "recovered")[number % 2] for number in range(len(told))]


def test_a_breach_is_recorded_and_due_once_however_often_it_is_seen(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    assert record_waits(store, "premium", 5, waits(4)) is None
    assert isinstance(record_waits(store, "premium", 5, waits(4, 7)), QueueChange)
    assert record_waits(store, "premium", 5, waits(8, 11)) is None
    (due,) = read_markers(store, markers(store), [])
    event = queue_event(store, due)
    assert event.is_platforms
    assert event.title == "tier premium: 2 queued, the longest for 7 minutes"
    assert record_waits(store, "premium", 5, []) is not None
    assert record_waits(store, "premium", 5, []) is None
    assert len(markers(store)) == 2


def test_those_that_wait_longest_are_asked_about_and_only_when_a_breach_begins(tmp_path: Path) -> None:
    store, asked = Store(str(tmp_path)), list[str]()

    def why(submission: str) -> str:
        asked.append(submission)
        return "no node has room" if len(asked) == 1 else ""

    assert record_waits(store, "premium", 5, waits(1, 2), why) is None
    found = record_waits(store, "premium", 5, waits(*range(1, 31)), why)
    assert asked == list(found.submissions[:5])
    assert found.reasons == {found.submissions[0]: "no node has room"}
    assert record_waits(store, "premium", 5, waits(40), why) is None
    assert record_waits(store, "premium", 5, [], why) is not None
    assert len(asked) == 5
    events = [queue_event(store, due) for due in read_markers(store, markers(store), [])]
    (event,) = [each for each in events if each and each.facts["state"] == "breach"]
    assert event.details[:2] == (f"{found.submissions[0]}: no node has room", found.submissions[1])


def test_records_from_before_there_were_reasons_are_read(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    found = record_waits(store, "premium", 5, waits(7))
    old = {name: value for name, value in found.model_dump(mode="json").items() if name != "reasons"}
    assert QueueChange.parse(canonical_json(old), "here") == found
