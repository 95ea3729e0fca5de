"""Waits that are too long: a breach is told once, its end once."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.notices.queue_alerts import QueueChange, Wait, change, queue_event, record_waits
from ft_assets.records.due_notices import markers, read_markers
from ft_resources.canonical import canonical_json
from ft_resources.store import Store


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
    assert event is not None
    assert event.is_platforms
    assert event.title == "tier premium: 2 wait, the longest for 7 minutes"
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
    assert found is not None
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
    assert found is not None
    old = {name: value for name, value in found.model_dump(mode="json").items() if name != "reasons"}
    assert QueueChange.parse(canonical_json(old), "here") == found
