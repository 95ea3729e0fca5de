"""What is planned makes servers equal to the stages, and nothing else is touched."""

from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.lines.lines import POINTERS, STAGES, PromotionRecord, fold
from ft_assets.control.serving.plan import plan
from ft_assets.control.serving.wanted import Wanted, banned_of, bases_of, wanted_of
from ft_resources.artifacts import InputRef
from ft_resources.canonical import digest
from ft_resources.serving.fleet import Endpoint, ServedModel
from tests.control.lines.promotable import LINE, made_record
from tests.control.serving.world import endpoint

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
