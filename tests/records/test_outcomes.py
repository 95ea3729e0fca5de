"""Outcomes: kept by line and minute, read in order, each once."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from ft_assets.records import outcomes
from ft_assets.records.outcomes import (
    FAILED_S,
    Outcome,
    OutcomeLog,
    lines_with_outcomes,
    prune_outcomes,
    read_outcomes,
)
from ft_resources.errors import CorruptArtifact, StoreUnavailable
from ft_resources.store import Store

LINE = "acme.things.tiny"
BEGIN = datetime(2026, 5, 1, 23, 59, 30, tzinfo=UTC)
SINCE, UNTIL = "2026-05-01", "2026-06-01"


def made(second: float = 0, value: float = 1.0, request: str = "", line: str = LINE, kind: str = "refusal") -> Outcome:
    at = (BEGIN + timedelta(seconds=second)).isoformat(timespec="milliseconds")
    return Outcome(model=f"{line}@{'a' * 16}", request=request or f"r{second}", kind=kind, value=value, at=at)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path))


def read(store: Store, since: str = SINCE, until: str = UNTIL) -> list[Outcome]:
    return list(read_outcomes(store, LINE, since, until))


def test_two_servers_write_an_object_a_minute_each_and_all_is_read_by_time(store: Store) -> None:
    one, two = OutcomeLog(store, "one"), OutcomeLog(store, "two")
    for second in range(0, 90, 3):
        (one if second % 2 else two).add(made(second))
    assert one.flush(BEGIN + timedelta(seconds=120)) + two.flush(BEGIN + timedelta(seconds=120)) == 30
    assert read(store) == [made(second) for second in range(0, 90, 3)]
    days = {entry.path.split("/")[3] for entry in store.entries("acme/outcomes")}
    assert days == {"2026-05-01", "2026-05-02"}
    # 23:59 and 00:00 of each.
    assert len(list(store.entries("acme/outcomes"))) == 4


def test_a_minute_that_goes_on_is_not_written_yet(store: Store) -> None:
    log = OutcomeLog(store, "one")
    log.add(made(0))
    log.add(made(40))
    assert log.flush(BEGIN + timedelta(seconds=45)) == 1
    assert read(store) == [made(0)]
    # One that is late for its minute is written all the same.
    log.add(made(1))
    log.flush(BEGIN + timedelta(minutes=5))
    assert read(store) == [made(0), made(1), made(40)]


def test_of_several_of_one_kind_for_one_answer_the_first_counts(store: Store) -> None:
    log = OutcomeLog(store, "one")
    for each in (made(0, 0.0, "r"), made(1, 1.0, "r"), made(2, 1.0, "r", kind="format")):
        log.add(each)
    log.flush(BEGIN + timedelta(minutes=5))
    assert read(store) == [made(0, 0.0, "r"), made(2, 1.0, "r", kind="format")]


@pytest.mark.parametrize("kind", ["thumbs", "judge"])
def test_feedback_counts_after_a_whole_answer_of_that_adapter_and_once(kind: str, store: Store) -> None:
    given, failed = made(0, 0.5, "given", kind="latency"), made(1, FAILED_S, "failed", kind="latency")
    said = made(10, 0.0, "given", kind=kind)
    elsewhere = [each.model_copy(update={"model": f"{LINE}@{'b' * 16}"}) for each in (said, made(11, 1.0, kind=kind))]
    made_up = [made(12 + number, 1.0, f"made-up-{number}", kind=kind) for number in range(5)]
    again = [made(20, 1.0, "given", kind=kind), made(21, 1.0, "failed", kind=kind)]
    early, late = made(30, 1.0, "soon", kind=kind), made(40, 0.5, "soon", kind="latency")
    log = OutcomeLog(store, "one")
    for each in (given, failed, said, *elsewhere, *made_up, *again, early, late):
        log.add(each)
    log.flush(BEGIN + timedelta(minutes=5))
    assert read(store) == [given, failed, said, late]


def test_only_what_was_asked_for_is_read(store: Store) -> None:
    log = OutcomeLog(store, "one")
    for each in (*map(made, range(0, 100, 10)), made(5, line="acme.others.tiny")):
        log.add(each)
    log.flush(BEGIN + timedelta(minutes=5))
    assert read(store, made(20).at, made(50).at) == [made(20), made(30), made(40)]
    assert lines_with_outcomes(store, "acme") == ["acme.others.tiny", LINE]
    assert lines_with_outcomes(store, "globex") == []


def test_what_a_store_refused_is_written_later(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    log = OutcomeLog(store, "one")
    log.add(made(0))
    log.add(made(40))

    def refuse(*_: object) -> bool:
        raise StoreUnavailable("the store is away")

    with monkeypatch.context() as away:
        away.setattr(store, "create", refuse)
        with pytest.raises(StoreUnavailable):
            log.flush(BEGIN + timedelta(minutes=5))
    log.add(made(50))
    assert log.flush(BEGIN + timedelta(minutes=5)) == 3
    assert read(store) == [made(0), made(40), made(50)]


def test_old_days_are_removed_whole(store: Store) -> None:
    log = OutcomeLog(store, "one")
    log.add(made(0))
    log.add(made(40))
    log.flush(BEGIN + timedelta(minutes=5))
    assert prune_outcomes(store, LINE, "2026-05-02T12:00:00") == 1
    assert read(store) == [made(40)]


def test_a_flood_leaves_objects_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "MOST_A_MINUTE", 5)
    log = OutcomeLog(store, "one")
    for number in range(20):
        log.add(made(0, request=str(number)))
    assert log.flush(BEGIN + timedelta(minutes=5)) == 5


def test_a_damaged_object_is_named(store: Store) -> None:
    path = f"acme/outcomes/{LINE}/2026-05-01/2359-one-1.jsonl"
    store.create(path, made(0).data() + b"\n{}\n")
    with pytest.raises(CorruptArtifact) as found:
        read(store)
    assert found.value.where == path


@pytest.mark.parametrize(("kind", "value"), [("thumbs", 1.5), ("format", 2.0), ("latency", -1.0), ("mood", 1.0)])
def test_a_value_out_of_range_is_no_outcome(kind: str, value: float) -> None:
    with pytest.raises(ValidationError):
        made(0, value, kind=kind)
    assert made(0, 30.0, kind="latency").value == 30.0


def test_objects_of_other_minutes_are_not_read(store: Store) -> None:
    """A sensor that asks each minute for the last hour would read the whole day otherwise."""
    log = OutcomeLog(store, "one")
    for second in (-60, 0, 60):
        log.add(made(second))
    log.flush(BEGIN + timedelta(minutes=5))
    for minute in ("2026-05-01/2357", "2026-05-02/0002"):
        store.create(f"acme/outcomes/{LINE}/{minute}-bad-1.jsonl", b"{")
    since, until = (made(second).at for second in (-60, 61))
    assert read(store, since, until) == [made(second) for second in (-60, 0, 60)]
    with pytest.raises(CorruptArtifact):
        read(store)
