import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ft_assets.records.uploads import publish_upload, upload_address
from ft_assets.workers.base_models.base_lock import BaseLock
from ft_assets.workers.base_models.lock import lock_folder, lock_hub
from ft_assets.workers.base_models.mirror import mirror
from ft_resources.artifacts import Artifacts, InputRef
from ft_resources.canonical import sha256_bytes, sha256_file
from ft_resources.errors import BadBase, CorruptArtifact
from ft_resources.store import Store
from ft_resources.worker_context import WorkContext
from tests.fake_base import CHAT_TEMPLATE, make_fake_base
from tests.fake_hub import FakeHub
from tests.workers.base_models.made import rebuilt_base

MakeContext = Callable[..., WorkContext]
REPO = "org/tiny"


def params(lock: BaseLock) -> dict[str, object]:
    return {"lock": lock.model_dump(mode="json", exclude={"upload"})}


def uploaded(store: Store, folder: Path, *, template_given: bool = False) -> tuple[BaseLock, dict[str, InputRef]]:
    lock = lock_folder(folder, "base", template_given=template_given)
    address = upload_address("shared", "base_upload", lock.digest)
    files = {name: folder / name for name in lock.files}
    artifact = publish_upload(Artifacts(store), address, files, lock.digest, actor="test")
    return lock, {"upload": artifact.ref}


def hashes(folder: Path) -> dict[str, str]:
    return {path.name: sha256_file(path) for path in folder.iterdir()}


def test_an_uploaded_folder_is_mirrored_byte_for_byte(base: Path, store: Store, work_context: MakeContext) -> None:
    lock, inputs = uploaded(store, base)
    result = mirror(work_context("base_model", params(lock), inputs))
    assert hashes(result.folder) == hashes(base)
    assert result.facts["parameters"] == 29_856
    assert result.facts["architecture"] == "LlamaForCausalLM"
    assert result.facts["chat_template"] is True
    assert result.facts["template_digest"] == sha256_bytes(CHAT_TEMPLATE.encode())
    assert result.facts["source"] == lock.source
    assert result.facts["revision"] == lock.digest
    assert result.facts["bytes"] == sum(path.stat().st_size for path in base.iterdir())


def test_a_hub_model_is_mirrored_at_the_locked_commit(base: Path, work_context: MakeContext) -> None:
    hub = FakeHub()
    commit = hub.commit(REPO, base)
    lock = lock_hub(hub, REPO, "main", template_given=False)
    expected = hashes(base)
    hub.commit(REPO, make_fake_base(base, seed=1))
    result = mirror(work_context("base_model", params(lock)), hub)
    assert hashes(result.folder) == expected
    assert result.facts["source"] == "hub:org/tiny"
    assert result.facts["revision"] == commit


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_hub_file_that_was_tampered_with_is_refused(base: Path, work_context: MakeContext, name: str) -> None:
    hub = FakeHub()
    commit = hub.commit(REPO, base)
    lock = lock_hub(hub, REPO, "main", template_given=False)
    hub.tamper(REPO, commit, name)
    with pytest.raises(BadBase, match=f"{name} is not the file that was locked"):
        mirror(work_context("base_model", params(lock)), hub)


def test_a_flipped_byte_of_the_upload_is_found(base: Path, store: Store, work_context: MakeContext) -> None:
    lock, inputs = uploaded(store, base)
    assert store.root is not None
    [stored] = store.root.rglob("model.safetensors")
    data = bytearray(stored.read_bytes())
    data[-1] ^= 1
    stored.write_bytes(data)
    with pytest.raises(CorruptArtifact, match=r"model\.safetensors"):
        mirror(work_context("base_model", params(lock), inputs))


def test_an_upload_with_other_files_than_the_lock_is_refused(
    base: Path, store: Store, work_context: MakeContext, tmp_path: Path
) -> None:
    lock, _ = uploaded(store, base)
    _, others = uploaded(store, make_fake_base(tmp_path / "other", seed=1))
    with pytest.raises(BadBase, match="does not hold the files that the recipe locked"):
        mirror(work_context("base_model", params(lock), others))


def test_a_tokenizer_that_transformers_reads_otherwise_is_a_fact_with_a_warning(
    base: Path, store: Store, work_context: MakeContext, tmp_path: Path
) -> None:
    lock, inputs = uploaded(store, base)
    facts = mirror(work_context("base_model", params(lock), inputs)).facts
    assert (facts["tokenizer_as_transformers"], facts["tokenizer_warning"]) == (True, "")
    lock, inputs = uploaded(store, rebuilt_base(tmp_path / "rebuilt"), template_given=True)
    facts = mirror(work_context("base_model", params(lock), inputs)).facts
    assert facts["tokenizer_as_transformers"] is False
    assert "Load the tokenizer from the adapter's folder" in facts["tokenizer_warning"]


def test_equal_work_gives_equal_facts(base: Path, store: Store, work_context: MakeContext) -> None:
    lock, inputs = uploaded(store, base)
    first = mirror(work_context("base_model", params(lock), inputs))
    assert mirror(work_context("base_model", params(lock), inputs)).facts == first.facts


def test_bases_with_one_tokenizer_share_its_digest(
    base: Path, store: Store, work_context: MakeContext, tmp_path: Path
) -> None:
    """Token packs are shared by all bases that turn text into tokens alike."""

    def facts(folder: Path) -> dict[str, object]:
        lock, inputs = uploaded(store, folder, template_given=True)
        return mirror(work_context("base_model", params(lock), inputs)).facts

    first = facts(base)
    retrained = facts(make_fake_base(tmp_path / "retrained", seed=1))
    assert retrained["tokenizer_digest"] == first["tokenizer_digest"]
    changed = make_fake_base(tmp_path / "changed")
    tokenizer = json.loads((changed / "tokenizer.json").read_text())
    tokenizer["normalizer"] = {"type": "NFC"}
    (changed / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert facts(changed)["tokenizer_digest"] != first["tokenizer_digest"]
    plain = facts(make_fake_base(tmp_path / "plain", with_template=False))
    assert plain["chat_template"] is False
    assert plain["template_digest"] != first["template_digest"]
