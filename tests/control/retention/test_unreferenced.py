"""The plan over the graph is pure: what anything leads to stays, with all that it was made of."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.erasure.plan import Node
from ft_assets.control.retention.unreferenced import REMADE, Unreferenced, plan_unreferenced

NOW = datetime(2026, 6, 1, tzinfo=UTC)
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


def test_uploads_and_adapters_are_nobodys_leftovers() -> None:
    nodes = graph({**CHAIN, ADAPTER: [CHECK, EVAL]})
    assert plan_unreferenced(nodes, [], marked(*nodes), DAYS, NOW).remove == ()


def test_what_is_led_to_again_loses_its_mark() -> None:
    plan = plan_unreferenced(graph(CHAIN), [EVAL], marked(DATA, "acme/dataset/gone"), DAYS, NOW)
    assert plan == Unreferenced(unmark=(DATA, "acme/dataset/gone"))


def test_what_was_marked_lately_keeps_what_it_stands_on() -> None:
    plan = plan_unreferenced(graph(CHAIN), [], {**marked(DATA, PACK, CHECK), **marked(EVAL, days=1)}, DAYS, NOW)
    assert plan.remove == ()
    assert set(plan.waiting) == {DATA, PACK, CHECK, EVAL}


def test_a_tenant_without_the_rule_keeps_its_own_and_the_shared_base_of_it() -> None:
    nodes = graph({"shared/base_model/1": [], "globex/checkpoint/1": ["shared/base_model/1"]})
    assert plan_unreferenced(nodes, [], marked(*nodes), DAYS, NOW).remove == ()


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
