"""The work of ``base_model`` on an accepted adapter: merged or taken whole, and the store left as it was."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ft_assets.workers.base_models.base_lock import BaseLock
from ft_assets.workers.base_models.mirror import mirror
from ft_resources.artifacts import Artifact
from ft_resources.canonical import sha256_bytes
from ft_resources.errors import BadBase, CorruptArtifact
from ft_resources.store import Store
from ft_resources.worker_context import WorkContext, WorkResult
from tests.control.registry.conftest import contents
from tests.fake_base import CHAT_TEMPLATE, make_fake_base
from tests.workers.evals.world import World, lora_files

MakeContext = Callable[..., WorkContext]
OWN_TEMPLATE = CHAT_TEMPLATE + "{# the recipe's #}"


@pytest.fixture
def world(store: Store, tmp_path: Path) -> World:
    return World(store=store, folder=tmp_path)


@pytest.fixture
def below(world: World, tmp_path: Path) -> Artifact:
    folder = make_fake_base(tmp_path / "below")
    (folder / "LICENSE").write_text("free")
    (folder / "README.md").write_text("a model")
    return world.publish("base_model", folder, tenant="shared")


def adapter_on(world: World, below: Artifact, template: str = CHAT_TEMPLATE) -> Artifact:
    files = {**lora_files(0.2), "chat_template.jinja": template.encode(), "README.md": b"a card"}
    return world.publish("adapter", files, inputs={"base": below}, params={"template": template})


def made(work_context: MakeContext, adapter: Artifact, below: Artifact | None, **params: Any) -> WorkResult:
    """What the worker makes of a lock on ``adapter``, which stands on ``below`` unless it is a whole model."""
    lock = BaseLock(
        kind="artifact",
        source=f"artifact:{adapter.address}",
        revision=adapter.digest,
        digest=adapter.digest,
        files=adapter.manifest.files,
        parent=below.ref if below else None,
    )
    return mirror(work_context("base_model", {"lock": lock.terms, **params}, lock.inputs))


def test_an_adapter_is_merged_into_the_base_below_it(
    world: World, below: Artifact, work_context: MakeContext, store: Store
) -> None:
    adapter = adapter_on(world, below)
    before = contents(store)
    result = made(work_context, adapter, below)
    files = {path.name: path.read_bytes() for path in result.folder.iterdir()}
    assert set(files) == set(below.manifest.files) - {"README.md"}
    assert {name for name, data in files.items() if data != below.read(name)} == {"model.safetensors"}
    assert contents(store) == before
    assert result.facts["parameters"] == 29_856
    assert (result.facts["source"], result.facts["revision"]) == (f"artifact:{adapter.address}", adapter.digest)
    again = made(work_context, adapter, below)
    assert {path.name: path.read_bytes() for path in again.folder.iterdir()} == files
    assert again.facts == result.facts


def test_the_template_that_the_adapter_was_trained_with_goes_along(
    world: World, below: Artifact, work_context: MakeContext, store: Store
) -> None:
    result = made(work_context, adapter_on(world, below, OWN_TEMPLATE), below)
    assert (result.folder / "chat_template.jinja").read_text() == OWN_TEMPLATE
    assert result.facts["template_digest"] == sha256_bytes(OWN_TEMPLATE.encode())


def test_a_whole_model_is_taken_without_what_describes_the_adapter(
    world: World, base: Path, work_context: MakeContext, store: Store
) -> None:
    (base / "preprocessor_config.json").write_text("{}")
    files = {path.name: path.read_bytes() for path in base.iterdir()}
    described = {"README.md": b"a card", "lineage.json": b"{}", "verdicts.json": b"[]"}
    model = world.publish("adapter", {**files, **described})
    before = contents(store)
    result = made(work_context, model, None)
    assert {path.name: path.read_bytes() for path in result.folder.iterdir()} == files
    # New tokens on top replace files, and write through no link into the store.
    extended = made(work_context, model, None, new_tokens=["zanubrutinib"])
    assert extended.facts["parameters"] == result.facts["parameters"] + 32
    assert extended.facts["new_tokens"] == 1
    assert extended.facts["tokenizer_digest"] != result.facts["tokenizer_digest"]
    assert json.loads((extended.folder / "config.json").read_bytes())["vocab_size"] == 289
    assert contents(store) == before


def test_a_base_below_that_is_not_the_adapters_is_refused(
    world: World, below: Artifact, work_context: MakeContext
) -> None:
    with pytest.raises(BadBase, match="was not trained on"):
        made(work_context, adapter_on(world, below), world.base(seed=5))


@pytest.mark.parametrize("which", ["adapter_model.safetensors", "model.safetensors"])
def test_a_flipped_byte_below_is_found(
    world: World, below: Artifact, work_context: MakeContext, store: Store, which: str
) -> None:
    adapter = adapter_on(world, below)
    owner = adapter if which.startswith("adapter") else below
    data = bytearray(owner.read(which))
    data[-1] ^= 1
    store.put(owner.location(which), bytes(data))
    with pytest.raises(CorruptArtifact, match=which):
        made(work_context, adapter, below)
