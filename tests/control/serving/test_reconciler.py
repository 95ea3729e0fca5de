"""Servers follow the lines: a plan that makes them equal to the stages, whatever goes wrong with some of them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.lines.lines import POINTERS, STAGES, PromotionRecord, fold
from ft_assets.control.serving.plan import plan
from ft_assets.control.serving.reconciler import Reconciler
from ft_assets.control.serving.standing import Lines as ReadLines
from ft_assets.control.serving.wanted import Wanted, banned_of, bases_of, wanted_of
from ft_assets.records.tombstones import Subject, delete
from ft_resources.artifacts import Artifact, InputRef
from ft_resources.canonical import digest
from ft_resources.errors import CorruptArtifact, StoreUnavailable
from ft_resources.serving.fleet import Endpoint, ServedModel
from ft_resources.store import Store
from tests.clock import Clock
from tests.control.lines.promotable import LINE, made_record
from tests.control.serving.world import COMMIT, SOURCE, FakeFleet, Lines, endpoint


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
        ("staging", (), f"one-{base.digest[:4]}: loading")
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


def test_a_base_that_somebody_asks_for_is_served_after_those_of_stages(
    lines: Lines, base, reconciler: Reconciler, fleet: FakeFleet
) -> None:
    lines.promote(lines.adapter(base), base)
    other = lines.base(source="hub:acme/other")
    fleet.bases = {each.digest: str(each.address) for each in (other, base)}
    reconciler.look()
    assert fleet.provided[-1] == [f"{SOURCE}@{COMMIT}", f"hub:acme/other@{COMMIT}"]


def test_a_base_that_no_server_has_is_told(lines: Lines, base, reconciler: Reconciler, fleet: FakeFleet) -> None:
    lines.promote(lines.adapter(base), base)
    fleet.names = ()
    assert [each.trouble for each in reconciler.look().lines] == ["any server: no server has its base"]


def test_logs_are_read_only_where_something_changed(lines: Lines, base, monkeypatch: pytest.MonkeyPatch) -> None:
    lines.promote(lines.adapter(base), base)
    reader = ReadLines(lines.store)
    wanted = reader.read().wanted
    assert wanted
    monkeypatch.setattr(Store, "get", lambda *_: pytest.fail("a log was read again"))
    assert reader.read().wanted == wanted


BASES = [digest(name) for name in ("base a", "base b")]
SERVERS = [endpoint(base, f"{number}") for number, base in enumerate((*BASES, BASES[0]))]


def made(number: int, stages: tuple[str, ...]) -> Wanted:
    model = ServedModel(
        line=f"acme.x.l{number}", address=f"a/adapter/{number}", digest=digest(number), base=BASES[number % 2]
    )
    return Wanted(model=model, base_address=f"shared/base_model/{number % 2}", stages=stages)  # type: ignore[arg-type]


NUMBERS = st.integers(0, 7)
WANTED = st.dictionaries(NUMBERS, st.sampled_from([(), ("staging",), ("production",), ("production", "staging")])).map(
    lambda found: [made(number, stages) for number, stages in found.items()]
)
NAMES = NUMBERS.map(lambda number: made(number, ()).model.name)
SERVED = st.fixed_dictionaries({each: st.frozensets(NAMES) for each in SERVERS})
IDLE = st.dictionaries(NAMES, st.floats(0, 1000))


@given(WANTED, SERVED, IDLE, st.frozensets(NAMES))
def test_a_plan_that_was_carried_out_leaves_what_stands_and_what_has_grace(wanted, served, idle, banned) -> None:
    names = {each.model.name for each in wanted}
    banned -= names
    found = plan(wanted, banned, served, idle, grace_s=600)
    after = {each: set(there) for each, there in served.items()}
    for model, at in found.load:
        after[at].add(model.name)
    for name, at in found.unload:
        after[at].remove(name)
    for at, there in after.items():
        standing = {each.model.name for each in wanted if each.stages and each.model.base == at.base}
        left = {name for name in served[at] if name not in banned and (name in names or idle.get(name, 0.0) <= 600)}
        assert there == standing | left
    again = plan(wanted, banned, after, idle, grace_s=600)
    assert (again.load, again.unload) == ((), ())


@given(WANTED, SERVED)
def test_production_is_loaded_first(wanted: list[Wanted], served: dict[Endpoint, frozenset[str]]) -> None:
    production = {each.model.name for each in wanted if "production" in each.stages}
    loads = [model.name in production for model, _ in plan(wanted, (), served, {}, grace_s=1).load]
    assert loads == sorted(loads, reverse=True)


STEPS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(STAGES), st.sampled_from(["promotion", "rollback"])), max_size=12
)
BASE = InputRef(address="shared/base_model/0", digest=BASES[0])


def records(steps: list[tuple[str, str, str]]) -> list[PromotionRecord]:
    return [
        made_record(seq=number, adapter=adapter, stage=stage, kind=kind, base=BASE)
        for number, (adapter, stage, kind) in enumerate(steps, 1)
    ]


@given(STEPS, st.frozensets(st.sampled_from("abcd")))
def test_production_and_staging_are_wanted_and_nothing_deleted_or_archived(steps, deleted) -> None:
    state = fold(LINE, records(steps))

    def is_deleted(record: PromotionRecord) -> bool:
        return record.adapter.address[-1] in deleted

    wanted = {each.model.address: each for each in wanted_of(state, is_deleted)}
    for stage in POINTERS:
        found = state.at(stage)
        if found is not None and not is_deleted(found) and found.adapter.address not in state.archived:
            stages = wanted[found.adapter.address].stages if found.adapter.address in wanted else ()
            assert (stage in stages) == (stage != "dev")
    banned = {each.address for each in banned_of(state, is_deleted)}
    assert not banned & wanted.keys()
    assert all(address[-1] in deleted or address in state.archived for address in banned)
    assert len({each.model.name for each in wanted.values()}) == len(wanted)


def test_what_a_rollback_returns_to_is_kept_and_not_loaded() -> None:
    state = fold(LINE, records([("a", "production", "promotion"), ("b", "production", "promotion")]))
    wanted = {each.model.address[-1]: each for each in wanted_of(state, lambda record: False)}
    assert {name: each.stages for name, each in wanted.items()} == {"b": ("production",), "a": ()}
    at = endpoint(wanted["a"].model.base)
    found = plan(list(wanted.values()), (), {at: {wanted["a"].model.name}}, {wanted["a"].model.name: 1e9}, grace_s=1)
    assert [model.address[-1] for model, _ in found.load] == ["b"]
    assert found.unload == ()


def test_a_new_base_takes_no_place_of_one_that_answers_but_production_comes_first() -> None:
    a, b = made(0, ("staging",)), made(1, ("staging",))
    for before in ([BASES[0]], [BASES[1]]):
        assert bases_of([a, b], before)[0].digest == before[0]
    production = made(1, ("production",))
    assert bases_of([a, production], [BASES[0]])[0].digest == BASES[1]
    assert bases_of([made(0, ())], []) == []
