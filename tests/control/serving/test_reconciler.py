"""Servers follow the lines, whatever goes wrong with some of them."""

from pathlib import Path

import pytest

from ft_assets.control.serving.reconciler import Reconciler
from ft_assets.control.serving.standing import Lines as ReadLines
from ft_assets.records.tombstones import Subject, delete
from ft_resources.artifacts import Artifact
from ft_resources.errors import CorruptArtifact, StoreUnavailable
from ft_resources.serving.fleet import ServedModel
from ft_resources.store import Store
from tests.clock import Clock
from tests.control.lines.promotable import LINE
from tests.control.serving.world import COMMIT, SOURCE, FakeFleet, Lines


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    return Lines(Store(str(tmp_path / "store")))


@pytest.fixture
def fleet() -> FakeFleet:
    return FakeFleet()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reconciler(lines: Lines, fleet: FakeFleet, clock: Clock) -> Reconciler:
    return Reconciler(lines.artifacts, fleet, clock=clock)


@pytest.fixture
def base(lines: Lines) -> Artifact:
    return lines.base()


@pytest.fixture
def standing(lines: Lines, base: Artifact, reconciler: Reconciler) -> Artifact:
    """An adapter that stands in production and was looked at."""
    adapter = lines.adapter(base)
    lines.promote(adapter, base)
    reconciler.look()
    return adapter


def name_of(adapter, line: str = LINE) -> str:
    return ServedModel(line=line, address=str(adapter.address), digest=adapter.digest, base="").name


def test_what_is_promoted_is_served_and_said_so_at_the_next_look(lines, base, fleet, reconciler) -> None:
    adapter = lines.adapter(base)
    assert reconciler.look().lines == ()
    lines.promote(adapter, base, "staging")
    first, second = reconciler.look(), reconciler.look()
    assert fleet.all_served() == {name_of(adapter)}
    assert [(each.stage, each.servers, each.trouble) for each in first.lines] == [
        ("staging", (), f"one-{base.digest[:4]}: it is being loaded")
    ]
    assert [(each.stage, each.servers, each.trouble) for each in second.lines] == [
        ("staging", (f"one-{base.digest[:4]}",), "")
    ]
    assert fleet.provided[-1] == [f"{SOURCE}@{COMMIT}"]


def test_the_adapter_before_stays_for_a_rollback_which_loads_nothing(lines, base, fleet, reconciler, clock) -> None:
    old, new = lines.adapter(base, 1), lines.adapter(base, 2)
    lines.promote(old, base)
    reconciler.look()
    lines.promote(new, base)
    reconciler.look()
    clock.now += 1e6
    reconciler.look()
    assert fleet.all_served() == {name_of(old), name_of(new)}
    lines.promote(old, base, kind="rollback")
    begun = len(fleet.begun)
    found = reconciler.look()
    assert [(each.name, bool(each.servers)) for each in found.lines] == [(name_of(old), True)]
    assert len(fleet.begun) == begun
    clock.now += 601
    reconciler.look()
    assert fleet.all_served() == {name_of(old)}


def test_two_promotions_within_a_second_and_a_rollback_while_loading_end_where_the_log_ends(
    lines: Lines, base, fleet: FakeFleet, reconciler: Reconciler
) -> None:
    first, second, third = (lines.adapter(base, number) for number in (1, 2, 3))
    fleet.slow = True
    lines.promote(first, base)
    lines.promote(second, base)
    reconciler.look()
    lines.promote(third, base)
    reconciler.look()
    lines.promote(second, base, kind="rollback")
    for _ in range(3):
        reconciler.look()
    fleet.finish()
    found = reconciler.look()
    assert [(each.name, bool(each.servers)) for each in found.lines] == [(name_of(second), True)]
    assert sorted(fleet.begun) == sorted({*fleet.begun}), "nothing is loaded twice at once"


def test_a_corrupt_adapter_is_told_tried_again_later_and_keeps_no_other_waiting(
    lines: Lines, base, fleet: FakeFleet, reconciler: Reconciler, clock: Clock
) -> None:
    bad, good = lines.adapter(base, 1), lines.adapter(base, 2)
    lines.promote(bad, base, line="acme.a.tiny")
    lines.promote(good, base, line="acme.b.tiny")
    fleet.refuses[name_of(bad, "acme.a.tiny")] = CorruptArtifact("weights do not match their sha256", where="x")
    for _ in range(5):
        found = reconciler.look()
    told = {each.line: (bool(each.servers), "do not match" in each.trouble) for each in found.lines}
    assert told == {"acme.a.tiny": (False, True), "acme.b.tiny": (True, False)}
    assert len(fleet.begun) == 2
    assert found.drift == ()
    for _ in range(40):
        clock.now += 3
        found = reconciler.look()
    assert 3 < len(fleet.begun) < 10
    assert found.drift == (f"{name_of(bad, 'acme.a.tiny')} is not on one-{base.digest[:4]}, and should be",)
    fleet.refuses.clear()
    clock.now += 100
    reconciler.look()
    found = reconciler.look()
    assert (found.drift, {each.trouble for each in found.lines}) == ((), {""})


def test_a_store_that_is_away_changes_nothing_and_is_told(standing, fleet, reconciler, monkeypatch) -> None:
    reconciler.look()

    def away(*_: object) -> None:
        raise StoreUnavailable("the bucket does not answer", where="s3://x")

    with monkeypatch.context() as outage:
        for name in ("folders", "entries", "get"):
            outage.setattr(Store, name, away)
        # A server that lost its adapters meanwhile gets them again.
        for there in fleet.served.values():
            there.clear()
        reconciler.look()
        found = reconciler.look()
    assert fleet.all_served() == {name_of(standing)}
    assert "the bucket does not answer" in found.trouble
    assert [bool(each.servers) for each in found.lines] == [True]
    assert reconciler.look().trouble == ""


def test_an_archived_or_deleted_adapter_is_unloaded_at_once_and_a_deleted_ones_copy_goes_as_soon_as_it_can(
    lines, base, standing, fleet, reconciler
) -> None:
    other = lines.adapter(base, 2)
    lines.promote(other, base, line="acme.b.tiny")
    lines.promote(other, base, "archived", line="acme.b.tiny")
    delete(lines.store, Subject.adapter(standing.address), actor="ann", reason="asked to")
    fleet.copies_stay = True
    before, gone = len(fleet.kept), (frozenset(), frozenset({standing.digest, other.digest}))
    for _ in range(3):
        reconciler.look()
        assert fleet.all_served() == set()
    assert fleet.kept[before:] == [gone] * 3
    fleet.copies_stay = False
    for _ in range(3):
        reconciler.look()
    assert len(fleet.kept) == before + 4


def test_what_somebody_asks_for_stays_as_long_as_it_is_asked_for(standing, fleet, reconciler, clock) -> None:
    pinned = "acme.other.tiny@" + "0" * 16
    next(iter(fleet.served.values())).add(pinned)
    for _ in range(3):
        reconciler.look()
        clock.now += 500
        fleet.asked[pinned] = clock.now
    assert pinned in fleet.all_served()
    clock.now += 601
    reconciler.look()
    assert pinned not in fleet.all_served()


def test_a_broken_log_keeps_what_it_said_before_and_the_other_lines_go_on(lines, base, fleet, reconciler) -> None:
    first, other = lines.adapter(base, 1), lines.adapter(base, 2)
    record = lines.promote(first, base, line="acme.a.tiny")
    reconciler.look()
    lines.store.put(record.path, b"{}")
    lines.promote(other, base, line="acme.b.tiny")
    reconciler.look()
    found = {each.line: each for each in reconciler.look().lines}
    assert found["acme.a.tiny"].servers
    assert found["acme.b.tiny"].servers
    assert record.path in found["acme.a.tiny"].trouble
    assert not found["acme.b.tiny"].trouble


def test_a_base_that_no_server_has_is_told(lines: Lines, base, reconciler: Reconciler, fleet: FakeFleet) -> None:
    lines.promote(lines.adapter(base), base)
    fleet.names = ()
    assert [each.trouble for each in reconciler.look().lines] == ["any server: none has its base"]


def test_logs_are_read_only_where_something_changed(lines: Lines, base, monkeypatch: pytest.MonkeyPatch) -> None:
    lines.promote(lines.adapter(base), base)
    reader = ReadLines(lines.store)
    wanted = reader.read().wanted
    assert wanted
    monkeypatch.setattr(Store, "get", lambda *_: pytest.fail("a log was read again"))
    assert reader.read().wanted == wanted
