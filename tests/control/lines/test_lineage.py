"""The way back from an adapter: complete, and every hash on it holds."""

import json

from ft_assets.workers.adapters.export import export_adapter
from ft_assets.workers.adapters.lineage import lineage, verify_lineage
from ft_resources.artifacts import Artifact
from ft_resources.work import WorkRequest
from tests.workers.evals.world import World


def test_lineage_goes_back_to_the_base_and_every_hash_holds(
    world: World, base: Artifact, accepted: WorkRequest
) -> None:
    adapter = world.publish_result(accepted, export_adapter(world.context(accepted)))
    tree = lineage(world.artifacts, str(adapter.address))
    assert set(tree.inputs) == {"base", "checkpoint", "eval_report"}
    assert tree.inputs["checkpoint"].inputs["base"].address == str(base.address)
    assert [name for _, name, _ in tree.walk()][:3] == ["", "base", "checkpoint"]
    stored = json.loads(adapter.read("lineage.json"))
    assert stored["inputs"]["checkpoint"]["inputs"]["base"]["digest"] == base.digest
    assert verify_lineage(world.artifacts, adapter.address) == []


def test_one_flipped_byte_anywhere_below_is_found(world: World, base: Artifact, accepted: WorkRequest) -> None:
    adapter = world.publish_result(accepted, export_adapter(world.context(accepted)))
    path = base.path("tokenizer.json", world.folder)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(bytes(data))
    (finding,) = verify_lineage(world.artifacts, adapter.address)
    assert "tokenizer.json" in finding
    assert "does not match its sha256" in finding


def test_a_missing_ancestor_is_named(world: World, base: Artifact, accepted: WorkRequest) -> None:
    adapter = world.publish_result(accepted, export_adapter(world.context(accepted)))
    world.store.delete(f"{base.address}/manifest.json")
    assert verify_lineage(world.artifacts, adapter.address) == [f"{base.address} is not in the store any more"]
    assert not lineage(world.artifacts, adapter.address).inputs["base"].present
