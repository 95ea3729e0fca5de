"""The plan of erasure is pure: what is needed stays, whatever has a tombstone."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.erasure.plan import Node, Situation, plan_erasure
from ft_assets.records.tombstones import Kind, Tombstone

NOW = datetime(2026, 6, 1, tzinfo=UTC)
RAW, DATA, PACK, CHECK, EVAL, ADAPTER = (
    f"acme/{asset}/1" for asset in ("raw_dataset", "dataset", "token_pack", "checkpoint", "eval_report", "adapter")
)
CHAIN = {
    RAW: {},
    DATA: {"raw": RAW},
    PACK: {"dataset": DATA, "base": "shared/base_model/1"},
    CHECK: {"pack": PACK, "base": "shared/base_model/1"},
    EVAL: {"checkpoint": CHECK, "dataset": DATA},
    ADAPTER: {"checkpoint": CHECK, "eval_report": EVAL},
    "shared/base_model/1": {},
}


def stone(name: str, *, kind: Kind = "dataset", days_ago: int = 40, grace_days: int = 30) -> Tombstone:
    at = (NOW - timedelta(days=days_ago)).isoformat()
    return Tombstone(
        kind=kind, name=name, seq=1, action="delete", actor="ann", reason="asked", at=at, grace_days=grace_days
    )


def situation(*stones: Tombstone, more: dict[str, dict[str, str]] | None = None, **changes: object) -> Situation:
    nodes = {address: Node(address=address, inputs=inputs) for address, inputs in {**CHAIN, **(more or {})}.items()}
    values: dict[str, object] = {
        "nodes": nodes,
        "uploads": {"acme.things.v1": RAW},
        "wanted": {},
        "served": {},
        "tombstones": stones,
        "now": NOW,
    }
    return Situation(**{**values, **changes})  # type: ignore[arg-type]


OF_TENANT = {RAW, DATA, PACK, CHECK, EVAL, ADAPTER}


def test_a_dataset_goes_after_the_grace_with_everything_that_was_made_of_it_and_the_base_stays() -> None:
    assert set(plan_erasure(situation(stone("acme.things.v1"))).remove) == OF_TENANT
    plan = plan_erasure(situation(stone("acme.things.v1", days_ago=29)))
    assert (dict(plan.remove), set(plan.waiting)) == ({}, OF_TENANT)


def test_an_adapter_goes_with_its_evaluation_training_and_exports_and_leaves_the_data() -> None:
    assert set(plan_erasure(situation(stone(ADAPTER, kind="adapter"))).remove) == {ADAPTER, EVAL, CHECK}
    export = {
        "acme/merged_model/1": {"adapter": ADAPTER, "base": "shared/base_model/1", "dataset": DATA},
        "acme/eval_report/2": {"checkpoint": "acme/merged_model/1", "dataset": DATA},
        "acme/quantized_model/1": {"adapter": ADAPTER, "exported": "acme/merged_model/1", "dataset": DATA},
        "acme/eval_report/3": {"checkpoint": "acme/quantized_model/1", "dataset": DATA},
    }
    of_adapter = plan_erasure(situation(stone(ADAPTER, kind="adapter"), more=export))
    assert set(of_adapter.remove) == {ADAPTER, EVAL, CHECK, *export}
    of_dataset = plan_erasure(situation(stone("acme.things.v1"), more=export))
    assert set(of_dataset.remove) == {*OF_TENANT, *export}


def test_what_another_adapter_stands_on_or_continued_stays_with_the_data_that_it_was_made_of() -> None:
    more = {"acme/adapter/2": {"checkpoint": CHECK}}
    plan = plan_erasure(situation(stone(ADAPTER, kind="adapter"), more=more))
    assert set(plan.remove) == {ADAPTER, EVAL}
    assert plan.kept == {CHECK: "acme/adapter/2 stands on it"}
    continued = {"acme/checkpoint/2": {"warm_start": ADAPTER}, "acme/adapter/2": {"checkpoint": "acme/checkpoint/2"}}
    plan = plan_erasure(situation(stone("acme.things.v1"), more=continued))
    assert not plan.remove
    assert set(plan.kept.values()) <= {"acme/checkpoint/2 stands on it", "acme/adapter/2 stands on it"}


def test_what_is_served_or_made_of_it_by_others_or_shared_with_another_version_stays() -> None:
    served = {ADAPTER: "in production of acme.things.tiny"}
    plan = plan_erasure(situation(stone("acme.things.v1"), served=served))
    assert not plan.remove
    assert plan.kept[RAW] == f"{ADAPTER} is in production of acme.things.tiny"
    mixing = {"globex/dataset/2": {"mix:acme.things.v1": DATA}, "globex/token_pack/2": {"dataset": "globex/dataset/2"}}
    plan = plan_erasure(situation(stone("acme.things.v1"), more=mixing))
    assert set(plan.remove) == {PACK, CHECK, EVAL, ADAPTER}
    chained = {"acme/base_model/2": {"adapter": ADAPTER}}
    assert not plan_erasure(situation(stone("acme.things.v1"), more=chained)).remove
    plan = plan_erasure(situation(stone("acme.things.v1"), wanted={RAW: "acme.other.v1", DATA: "acme.other.v1"}))
    assert set(plan.kept) == {RAW, DATA}


def test_a_tenant_goes_whole_and_no_other() -> None:
    more: dict[str, dict[str, str]] = {"globex/raw_dataset/1": {}, "acme/base_upload/1": {}}
    plan = plan_erasure(situation(stone("acme", kind="tenant", grace_days=0), more=more))
    assert set(plan.remove) == OF_TENANT | {"acme/base_upload/1"}


@pytest.mark.statistics
@given(st.data())
def test_nothing_that_is_served_or_not_covered_ever_loses_what_it_stands_on(data: st.DataObject) -> None:
    """Any graph, any tombstones: what goes is covered, and nothing that stays alive has an input that goes."""
    assets = ("raw_dataset", "dataset", "token_pack", "checkpoint", "eval_report", "adapter", "base_model")
    names: list[str] = []
    graph: dict[str, dict[str, str]] = {}
    for number in range(data.draw(st.integers(1, 12))):
        name = f"{data.draw(st.sampled_from(('acme', 'globex')))}/{data.draw(st.sampled_from(assets))}/{number}"
        parents = data.draw(st.lists(st.sampled_from(names), max_size=3, unique=True)) if names else []
        keys = data.draw(st.lists(st.sampled_from(("mix:x", "checkpoint", "eval_report", "raw")), min_size=3))
        graph[name] = dict(zip(keys, parents, strict=False))
        names.append(name)
    adapters = [name for name in names if "/adapter/" in name]
    stones = [stone(name, kind="adapter") for name in adapters if data.draw(st.booleans())]
    stones += [stone("acme.k.v1")] * data.draw(st.integers(0, 1))
    served = {name: "in production" for name in adapters if data.draw(st.booleans())}
    nodes = {name: Node(address=name, inputs=inputs) for name, inputs in graph.items()}
    found = Situation(
        nodes=nodes, uploads={"acme.k.v1": names[0]}, wanted={}, served=served, tombstones=stones, now=NOW
    )
    plan = plan_erasure(found)
    assert not set(plan.remove) & set(served)
    for name in set(names) - set(plan.remove):
        assert not set(graph[name].values()) & set(plan.remove)
