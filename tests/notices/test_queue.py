"""Waits that are too long: a breach is told once, its end once."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ft_assets.notices.due import markers, read_markers
from ft_assets.notices.queue import QueueChange, Wait, change, queue_event, record_waits
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
