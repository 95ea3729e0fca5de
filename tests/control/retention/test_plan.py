"""The plans of retention are pure: what is needed, lives or may be resumed stays."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.erasure.plan import Node
from ft_assets.control.retention.leftovers import RECORDS, Place, PlacePlan, Trace, may_have_leftovers, plan_place
from ft_assets.control.retention.plan import candidates, plan_retention
from ft_assets.control.retention.unreferenced import REMADE, Unreferenced, plan_unreferenced
from ft_assets.settings.keys import DatasetKey
from ft_assets.settings.retention import Leftovers, Retention
from ft_resources.store import Entry

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def versions(count: int, tenant: str = "acme", name: str = "things") -> list[DatasetKey]:
    return [DatasetKey(tenant=tenant, name=name, version=number) for number in range(1, count + 1)]


def aged(keys: list[DatasetKey], days: list[int]) -> dict[str, datetime]:
    return {str(key): NOW - timedelta(days=age) for key, age in zip(keys, days, strict=True)}


def test_what_either_rule_keeps_stays_and_without_a_rule_all() -> None:
    keys = versions(4)
    added = aged(keys, [100, 90, 10, 1])
    both = Retention(keep_versions=1, keep_days=30)
    assert candidates(keys, {"acme": both}, added, NOW) == ["acme.things.v1", "acme.things.v2"]
    assert candidates(keys, {"acme": Retention(keep_versions=3)}, {}, NOW) == ["acme.things.v1"]
    assert candidates(keys, {"acme": Retention(keep_days=95)}, added, NOW) == ["acme.things.v1"]
    # Of whose age nobody knows, nothing is retired for its age.
    assert candidates(keys, {"acme": Retention(keep_days=1)}, {}, NOW) == []
    keys = versions(9) + versions(9, tenant="other")
    assert candidates(keys, {}, {}, NOW) == []
    assert candidates(keys, {"acme": Retention()}, {}, NOW) == []
    assert all(key.startswith("acme.") for key in candidates(keys, {"acme": Retention(keep_versions=1)}, {}, NOW))


@pytest.mark.statistics
@given(
    count=st.integers(1, 12),
    keep=st.one_of(st.none(), st.integers(1, 5)),
    days=st.one_of(st.none(), st.integers(1, 60)),
    data=st.data(),
)
def test_nothing_that_is_needed_new_or_mixed_in_by_what_stays_is_retired(count, keep, days, data) -> None:
    keys = versions(count) + versions(count, name="others")
    names = [str(key) for key in keys]
    rules = {"acme": Retention(keep_versions=keep, keep_days=days)}
    added = aged(keys, data.draw(st.lists(st.integers(0, 100), min_size=len(keys), max_size=len(keys))))
    wanted = candidates(keys, rules, added, NOW)
    needed = dict.fromkeys(data.draw(st.sets(st.sampled_from(names))), "production")
    mixes = data.draw(st.dictionaries(st.sampled_from(names), st.frozensets(st.sampled_from(names), max_size=3)))
    plan = plan_retention(wanted, needed, mixes)
    retired = set(plan.retire)
    assert not retired & set(needed)
    assert not retired & {f"acme.things.v{count}", f"acme.others.v{count}"}
    for name in set(names) - retired:
        assert not retired & mixes.get(name, frozenset())
    # And whatever is left of the candidates has a reason.
    assert retired | set(plan.kept) == set(wanted)
    if keep is not None:
        newest = {
            f"acme.{name}.v{number}" for name in ("things", "others") for number in range(count - keep + 1, count + 1)
        }
        assert not retired & newest
    if days is not None:
        assert all(NOW - added[name] > timedelta(days=days) for name in retired)


RAW, DATA, PACK, CHECK, EVAL, ADAPTER = (
    f"acme/{asset}/1" for asset in ("raw_dataset", "dataset", "token_pack", "checkpoint", "eval_report", "adapter")
)
CHAIN = {RAW: [], DATA: [RAW], PACK: [DATA], CHECK: [PACK], EVAL: [CHECK, DATA]}
DAYS = {"acme": 30, "shared": 30}


def graph(edges: dict[str, list[str]]) -> dict[str, Node]:
    return {
        address: Node(address=address, inputs={str(place): each for place, each in enumerate(parents)})
        for address, parents in edges.items()
    }


def marked(*addresses: str, days: float = 31) -> dict[str, datetime]:
    return dict.fromkeys(addresses, NOW - timedelta(days=days))


def test_what_nothing_leads_to_is_marked_and_goes_after_its_days_children_first() -> None:
    nodes = graph(CHAIN)
    first = plan_unreferenced(nodes, [], {}, DAYS, NOW)
    assert (set(first.mark), first.remove) == ({DATA, PACK, CHECK, EVAL}, ())
    marks = marked(*first.mark)
    assert plan_unreferenced(nodes, [], marks, DAYS, NOW - timedelta(days=2)).remove == ()
    assert plan_unreferenced(nodes, [], marks, DAYS, NOW).remove == (EVAL, CHECK, PACK, DATA)


def test_uploads_adapters_and_what_a_tenant_without_the_rule_has_are_nobodys_leftovers() -> None:
    nodes = graph({**CHAIN, ADAPTER: [CHECK, EVAL]})
    assert plan_unreferenced(nodes, [], marked(*nodes), DAYS, NOW).remove == ()
    nodes = graph({"shared/base_model/1": [], "globex/checkpoint/1": ["shared/base_model/1"]})
    assert plan_unreferenced(nodes, [], marked(*nodes), DAYS, NOW).remove == ()


def test_what_is_led_to_again_loses_its_mark_and_what_was_marked_lately_keeps_what_it_stands_on() -> None:
    plan = plan_unreferenced(graph(CHAIN), [EVAL], marked(DATA, "acme/dataset/gone"), DAYS, NOW)
    assert plan == Unreferenced(unmark=(DATA, "acme/dataset/gone"))
    plan = plan_unreferenced(graph(CHAIN), [], {**marked(DATA, PACK, CHECK), **marked(EVAL, days=1)}, DAYS, NOW)
    assert plan.remove == ()
    assert set(plan.waiting) == {DATA, PACK, CHECK, EVAL}


ASSETS = (*sorted(REMADE), "raw_dataset", "adapter", "suite")


@pytest.mark.statistics
@given(st.data())
def test_nothing_that_stays_ever_loses_what_it_was_made_of(data: st.DataObject) -> None:
    """Any graph, roots, marks and rules: also wherever the removal is interrupted."""
    edges: dict[str, list[str]] = {}
    for number in range(data.draw(st.integers(1, 14))):
        tenant, asset = (data.draw(st.sampled_from(each)) for each in (("acme", "globex", "shared"), ASSETS))
        parents = data.draw(st.lists(st.sampled_from(sorted(edges)), max_size=3, unique=True)) if edges else []
        edges[f"{tenant}/{asset}/{number}"] = parents
    nodes = graph(edges)
    roots = data.draw(st.lists(st.sampled_from(sorted(edges)), max_size=3))
    marks = {each: NOW - timedelta(days=data.draw(st.integers(0, 60))) for each in edges if data.draw(st.booleans())}
    days = {tenant: 30 for tenant in ("acme", "globex", "shared") if data.draw(st.booleans())}
    plan = plan_unreferenced(nodes, roots, marks, days, NOW)
    stays = set(edges)
    for address in plan.remove:
        node = nodes[address]
        assert address not in roots
        assert node.asset in REMADE
        assert node.tenant in days
        assert NOW - marks[address] > timedelta(days=days[node.tenant])
        stays.discard(address)
        for other in stays:
            assert address not in edges[other]
    reached, waiting = set(), [*roots]
    while waiting:
        reached.add(current := waiting.pop())
        waiting += edges[current]
    assert not reached & {*plan.remove, *plan.mark}
    # And whatever could go at all is removed, marked or waits.
    assert not set(plan.remove) & {*plan.mark, *plan.waiting, *plan.unmark}


AT = f"acme/checkpoint/{'a' * 64}"
RULE = Leftovers(attempt_days=7, saves_days=30)
LOG, SAVE, CLAIM = "attempts/0001/log-000001.txt", "attempts/0001/saves/000010/model", "attempts/0001/claim.json"


def entry(path: str, days: float = 100) -> Entry:
    return Entry(path=f"{AT}/{path}", size=10, modified=NOW - timedelta(days=days))


def ended(days: float = 100, number: int = 1) -> Trace:
    at = NOW - timedelta(days=days)
    return Trace(number=number, seen_at=at, ended_at=at)


def silent(days: float, *, running: bool = False) -> Trace:
    return Trace(number=1, seen_at=NOW - timedelta(days=days), ended_at=None, running=running)


def dropped(place: Place, rule: Leftovers = RULE) -> set[str]:
    plan = plan_place(place, rule, NOW)
    # What goes was visible in the listing, or nobody would have looked.
    assert not plan.drop or may_have_leftovers(place, rule, NOW)
    return {path.removeprefix(f"{AT}/") for each in plan.drop for path in each.paths}


def place(*paths: str, days: float = 100, attempts: tuple[Trace, ...] = (), **changes: object) -> Place:
    found = [entry(path, days) for path in paths]
    return Place(address=AT, entries=found, attempts=attempts, **changes)  # type: ignore[arg-type]


def test_a_failed_attempt_loses_its_log_and_half_a_result_and_its_saves_where_it_is_never_asked_for_again() -> None:
    paths = (
        LOG,
        SAVE,
        "attempts/0001/steps-000001.jsonl",
        "w0001-ab/final/model",
        *(f"attempts/0001/{n}" for n in RECORDS),
    )
    assert dropped(place(*paths, attempts=(ended(8),))) == {LOG, paths[2], paths[3]}
    assert dropped(place(*paths, attempts=(ended(6),))) == set()
    assert dropped(place(*paths, attempts=(ended(31),))) == {LOG, SAVE, paths[2], paths[3]}
    assert dropped(place(SAVE, attempts=(ended(8),), again=False)) == {SAVE}
    assert dropped(place(SAVE, attempts=(ended(8),))) == set()
    assert dropped(place(SAVE, attempts=(ended(8),)), Leftovers(attempt_days=7)) == set()


def test_of_finished_work_losers_go_and_an_attempt_that_died_unseen_is_ended_first() -> None:
    paths = ("manifest.json", "w0002-cd/model", "w0001-ab/model", SAVE, LOG, "erased/w0001.json")
    assert dropped(place(*paths, writer="w0002-cd", attempts=(ended(8),))) == {"w0001-ab/model", SAVE}
    assert plan_place(place(LOG, attempts=(silent(8),)), RULE, NOW) == PlacePlan(end=(1,))
    assert plan_place(place(LOG, attempts=(silent(6),)), RULE, NOW) == PlacePlan()
    everything = place(LOG, SAVE, attempts=(ended(),))
    assert not may_have_leftovers(everything, Leftovers(attempt_days=None, unreferenced_days=1), NOW)
    assert plan_place(everything, Leftovers(attempt_days=None), NOW) == PlacePlan()


@pytest.mark.parametrize(
    "changes",
    [
        {"attempts": (silent(300, running=True),)},
        {"attempts": (ended(300), silent(1))},
        {"attempts": (Trace(number=1, seen_at=NOW - timedelta(300), ended_at=NOW - timedelta(300), counted=False),)},
        {"attempts": (ended(300),), "wanted": "submission 1 is open"},
        {"attempts": (ended(1),)},
    ],
    ids=["it runs", "a later one lives", "not billed yet", "waited for", "ended yesterday"],
)
def test_nothing_goes_of_what_is_in_use(changes: dict[str, object]) -> None:
    assert plan_place(place(LOG, SAVE, "w0001-ab/model", **changes), RULE, NOW) == PlacePlan()  # type: ignore[arg-type]


def test_an_upload_in_the_making_counts_from_its_newest_file_and_of_a_save_its_record_goes_first() -> None:
    half = Place(address=AT, entries=[entry("w1/a", 100), entry("w1/b", 6)])
    assert dropped(half) == set()
    assert dropped(place("w1/a", "w1/b")) == {"w1/a", "w1/b"}
    files = tuple(f"attempts/0001/saves/000010/{name}" for name in ("model.safetensors", "save.json", "optimizer"))
    (leftover,) = plan_place(place(*files, attempts=(ended(),)), RULE, NOW).drop
    assert leftover.paths[0].endswith("save.json")


@given(st.data())
def test_whatever_is_there_the_winner_records_and_young_things_stay(data: st.DataObject) -> None:
    names = ("w1/x", "w2/x", LOG, SAVE, "attempts/0002/books/1", "attempts/0002/kept/1/w", CLAIM, "erased/w9.json")
    ages = {name: data.draw(st.floats(0, 100)) for name in names if data.draw(st.booleans())}
    writer = data.draw(st.sampled_from(("", "w1", "w2")))
    days = st.none() | st.integers(1, 60)
    rule = Leftovers(attempt_days=data.draw(days), saves_days=data.draw(days))
    traces = data.draw(st.lists(st.builds(ended, st.floats(0, 100)) | st.builds(silent, st.floats(0, 100)), max_size=2))
    found = Place(
        address=AT,
        entries=[entry(*item) for item in ages.items()],
        writer=writer,
        attempts=traces,
        again=data.draw(st.booleans()),
    )
    gone = dropped(found, rule) if ages else set()
    allowed = [each for each in (rule.attempt_days, rule.saves_days) if each is not None]
    for name in gone:
        assert name not in (CLAIM, "erased/w9.json")
        assert not (writer and name.startswith(f"{writer}/"))
        assert ages[name] > min(allowed)
        if "/saves/" in name and not writer and found.again:
            assert rule.saves_days is not None
            assert ages[name] > rule.saves_days
    if gone:
        assert all(each.ended_at for each in traces)
