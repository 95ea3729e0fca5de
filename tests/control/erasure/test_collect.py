"""Erasure: a pure plan of what is needed and what goes, and collecting over a real store."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control import identity
from ft_assets.control.erasure.collect import collect, erase_tenant
from ft_assets.control.erasure.plan import Node, Situation, plan_erasure
from ft_assets.control.erasure.verify_tombstones import tombstone_findings
from ft_assets.control.lines.lines import read_line
from ft_assets.control.lines.promotion import promote
from ft_assets.control.rollouts.asked import Wish, start
from ft_assets.records.erased import find_erased
from ft_assets.records.tombstones import Kind, Subject, Tombstone, delete, find_tombstone, restore
from ft_assets.settings.keys import DatasetKey
from ft_assets.workers.adapters.lineage import lineage, verify_lineage
from ft_resources.artifacts import Address
from ft_resources.errors import CorruptArtifact, Deleted, UserError
from ft_resources.store import Store
from tests.control.lines.promotable import LINE, Promotable, add_dataset, decided
from tests.control.rollouts.made import BEGIN, leave_outcomes, outcome

KEY = "acme.things.v1"
DATASET = Subject.dataset(DatasetKey.parse(KEY))
LATER = datetime.now(UTC) + timedelta(days=31)


def gone(store: Store, address: str) -> bool:
    return all("/erased/" in entry.path for entry in store.entries(address))


def test_a_deleted_dataset_is_refused_at_once_and_can_be_taken_back(line: Promotable) -> None:
    artifacts, store = line.world.artifacts, line.world.store
    adapter = line.adapter()
    tombstone, created = delete(store, DATASET, actor="ann", reason="contract ended")
    assert created
    assert delete(store, DATASET, actor="bob", reason="me too") == (tombstone, False)
    with pytest.raises(Deleted, match="deleted by ann") as caught:
        identity.raw_dataset(artifacts, KEY)
    assert "ft restore" in caught.value.remedy
    with pytest.raises(Deleted):
        promote(artifacts, str(adapter.address), "staging", decided())
    assert collect(artifacts).addresses == ()
    restore(store, DATASET, actor="ann", reason="a mistake")
    assert identity.raw_dataset(artifacts, KEY).address == line.raw.address
    assert delete(store, DATASET, actor="ann", reason="after all")[0].seq == 3


def test_after_the_grace_bytes_are_gone_and_the_lineage_says_erased(line: Promotable) -> None:
    artifacts, store = line.world.artifacts, line.world.store
    adapter = line.adapter()
    files = [adapter.location(name) for name in adapter.manifest.files]
    store.put(f"{adapter.manifest.inputs['checkpoint'].address}/attempts/0001/log-000001.txt", b"log")
    store.put("acme/cache/chunks/ab/abcd", b"rows")
    delete(store, DATASET, actor="ann", reason="contract ended")
    done = collect(artifacts, LATER)
    assert str(line.raw.address) in done.addresses
    assert str(adapter.address) in done.addresses
    assert not any(store.exists(path) for path in files)
    for address in done.addresses:
        assert gone(store, address)
    assert list(store.entries("acme/cache")) == []
    assert artifacts.find(line.base.address) is not None
    found = find_erased(store, adapter.address)
    assert found.manifest == adapter.manifest
    tree = lineage(artifacts, adapter.address)
    raws = [node for _, _, node in tree.walk() if node.address == str(line.raw.address)]
    assert raws
    assert all(node.erased.startswith("deleted by ann") and node.digest == line.raw.digest for node in raws)
    erased: list[str] = []
    assert verify_lineage(artifacts, adapter.address, erased=erased) == []
    assert any(text.startswith(f"{line.raw.address}: erased, deleted by ann") for text in erased)
    assert collect(artifacts, LATER).addresses == ()
    with pytest.raises(UserError, match="grace of 30 days is over"):
        restore(store, DATASET, actor="ann", reason="oh", now=LATER)


def test_what_production_needs_is_kept_until_the_line_moves_on(line: Promotable) -> None:
    artifacts, store = line.world.artifacts, line.world.store
    adapter = line.adapter()
    promote(artifacts, str(adapter.address), "production", decided())
    delete(store, DATASET, actor="ann", reason="contract ended")
    done = collect(artifacts, LATER)
    assert done.addresses == ()
    assert f"in production of {LINE}" in done.plan.kept[str(line.raw.address)]
    promote(artifacts, str(adapter.address), "archived", decided())
    assert str(line.raw.address) in collect(artifacts, LATER).addresses


def test_an_interrupted_erasure_is_finished_by_the_next(line: Promotable, monkeypatch: pytest.MonkeyPatch) -> None:
    artifacts, store = line.world.artifacts, line.world.store
    adapter = line.adapter()
    delete(store, DATASET, actor="ann", reason="contract ended")
    real, left = Store.delete, iter(range(4))

    def dies(self: Store, path: str) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        real(self, path)

    monkeypatch.setattr(Store, "delete", dies)
    with pytest.raises(KeyboardInterrupt):
        collect(artifacts, LATER)
    monkeypatch.setattr(Store, "delete", real)
    collect(artifacts, LATER)
    for address in (str(line.raw.address), str(adapter.address)):
        assert gone(store, address)
    assert verify_lineage(artifacts, adapter.address) == []


def test_a_tenant_is_erased_with_its_lines_archived_and_its_records_kept(line: Promotable) -> None:
    artifacts, store = line.world.artifacts, line.world.store
    adapter = line.adapter()
    promote(artifacts, str(adapter.address), "production", decided())
    others = add_dataset(line.world, "globex.things.v1", b"others", tenant="globex")
    stray = "acme/token_pack/stray/w1/tokens.bin"
    store.put(stray, b"half of it")
    # What was used, promised and given back are the platform's books.
    books = [f"acme/{folder}/2026-01/1.json" for folder in ("usage", "quota", "refunds")]
    for book in books:
        store.put(book, b"{}")
    _, archived = erase_tenant(artifacts, "acme", decided(reason="they asked"), grace_days=0)
    assert archived == [f"in production of {LINE}"]
    assert read_line(store, LINE).at("production") is None
    with pytest.raises(Deleted, match="tenant acme was deleted"):
        identity.raw_dataset(artifacts, KEY)
    done = collect(artifacts, datetime.now(UTC) + timedelta(seconds=2))
    assert str(adapter.address) in done.addresses
    assert not store.exists(stray)
    assert artifacts.find(others.address) is not None
    assert store.exists(f"names/dataset/{KEY}.json")
    assert all(store.exists(book) for book in books)
    assert [record.stage for record in read_line(store, LINE).records] == ["production", "archived"]
    assert artifacts.find(line.base.address) is not None


def test_tombstones_need_something_to_stand_on_and_a_reason(line: Promotable) -> None:
    store = line.world.store
    adapter = line.adapter()
    for subject in (
        Subject.dataset(DatasetKey.parse("acme.nothing.v1")),
        Subject.adapter(Address(tenant="acme", asset="adapter", fingerprint="0" * 64)),
        Subject.of_tenant("nobody"),
    ):
        with pytest.raises(UserError, match="there is no"):
            delete(store, subject, actor="ann", reason="x")
    with pytest.raises(UserError, match="needs a reason"):
        delete(store, DATASET, actor="ann", reason=" ")
    with pytest.raises(UserError, match="only datasets and adapters"):
        Subject.adapter(Address.parse(adapter.manifest.inputs["checkpoint"].address))
    assert find_tombstone(store, DATASET) is None


def test_a_tombstone_that_was_damaged_altered_exchanged_or_taken_out_is_an_error_and_no_restoration(line) -> None:
    store = line.world.store
    first, _ = delete(store, DATASET, actor="ann", reason="contract ended")
    second = restore(store, DATASET, actor="bob", reason="a mistake")
    third, _ = delete(store, DATASET, actor="ann", reason="they asked again")
    assert find_tombstone(store, DATASET) == third
    assert list(tombstone_findings(store)) == []
    for words, path, data in (
        ("tombstone cannot be read", third.path, b"{}"),
        ("does not match its seal", third.path, third.data().replace(b'"delete"', b'"restore"')),
        ("does not follow the one before", first.path, first.model_copy(update={"actor": "eve"}).sealed().data()),
        ("a record is missing before a later one", second.path, b""),
    ):
        whole = store.get(path)
        store.put(path, data) if data else store.delete(path)
        with pytest.raises(CorruptArtifact, match=words):
            identity.raw_dataset(line.world.artifacts, KEY)
        with pytest.raises(CorruptArtifact, match=words):
            collect(line.world.artifacts, LATER)
        (finding,) = tombstone_findings(store)
        assert words in finding
        store.put(path, whole)
    assert find_tombstone(store, DATASET) == third


def test_a_tombstone_that_is_gone_after_bytes_went_for_it_is_found(line: Promotable) -> None:
    store = line.world.store
    line.adapter()
    tombstone, _ = delete(store, DATASET, actor="ann", reason="contract ended", grace_days=0)
    assert collect(line.world.artifacts, LATER).addresses
    assert list(tombstone_findings(store)) == []
    store.delete(tombstone.path)
    findings = list(tombstone_findings(store))
    assert findings
    assert all(f"{tombstone.path}: the tombstone is missing for which acme/" in finding for finding in findings)


def test_a_deleted_candidate_of_a_rollout_has_no_traffic_to_keep_it_and_outcomes_go_with_their_tenant(line) -> None:
    artifacts, store = line.world.artifacts, line.world.store
    first, second = line.adapter(1), line.adapter(2)
    promote(artifacts, str(first.address), "production", decided())
    start(artifacts, LINE, Wish(candidate=str(second.address), outcomes=("thumbs",)), decided())
    leave_outcomes(store, [outcome(second.ref, 1.0, BEGIN)])
    copied = ("acme/shadows", "acme/shadow_conversations", "acme/shadow_verdicts", "acme/conversations")
    for folder in copied:
        store.create(f"{folder}/{LINE}/{BEGIN.date()}/1200-one-1.jsonl", b"")
    delete(store, Subject.adapter(second.address), actor="ann", reason="old")
    collect(artifacts, LATER)
    assert gone(store, str(second.address))
    assert all(list(store.entries(folder)) for folder in ("acme/outcomes", *copied))
    _, archived = erase_tenant(artifacts, "acme", decided(reason="contract ended"))
    assert archived == [f"in production of {LINE}"]
    assert collect(artifacts).objects == 0
    assert list(store.entries("acme/outcomes"))
    collect(artifacts, LATER)
    assert not any(list(store.entries(folder)) for folder in ("acme/outcomes", *copied))
    # Who decided what stays.
    assert list(store.entries("acme/rollouts"))


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


def test_a_dataset_or_tenant_goes_after_the_grace_with_everything_that_was_made_of_it_and_nothing_else() -> None:
    assert set(plan_erasure(situation(stone("acme.things.v1"))).remove) == OF_TENANT
    plan = plan_erasure(situation(stone("acme.things.v1", days_ago=29)))
    assert (dict(plan.remove), set(plan.waiting)) == ({}, OF_TENANT)
    more: dict[str, dict[str, str]] = {"globex/raw_dataset/1": {}, "acme/base_upload/1": {}}
    plan = plan_erasure(situation(stone("acme", kind="tenant", grace_days=0), more=more))
    assert set(plan.remove) == OF_TENANT | {"acme/base_upload/1"}


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
    assert plan.kept == {CHECK: "acme/adapter/2 is based on it"}
    continued = {"acme/checkpoint/2": {"warm_start": ADAPTER}, "acme/adapter/2": {"checkpoint": "acme/checkpoint/2"}}
    plan = plan_erasure(situation(stone("acme.things.v1"), more=continued))
    assert not plan.remove
    assert set(plan.kept.values()) <= {"acme/checkpoint/2 is based on it", "acme/adapter/2 is based on it"}


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
