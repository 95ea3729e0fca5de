import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ft_assets.workers.base_models.contents import INDEX
from ft_assets.workers.base_models.lock import lock_folder, lock_hub
from ft_resources.errors import BadBase
from tests.fake_base import make_fake_base
from tests.fake_hub import FakeHub

REPO = "org/tiny"


def hub_of(folder: Path) -> FakeHub:
    hub = FakeHub()
    hub.commit(REPO, folder)
    return hub


def refused(hub: FakeHub, *, template_given: bool = False) -> str:
    with pytest.raises(BadBase) as caught:
        lock_hub(hub, REPO, "main", template_given=template_given)
    return caught.value.what


def test_a_hub_model_and_the_same_folder_have_one_digest(base: Path) -> None:
    """So nothing that depends on the content changes when a team moves from a folder to the hub."""
    lock = lock_hub(hub_of(base), REPO, "main", template_given=False)
    folder = lock_folder(base, "base", template_given=False)
    assert (lock.digest, lock.files) == (folder.digest, folder.files)
    assert lock.source == "hub:org/tiny"
    assert lock.upload is None


def test_weights_are_locked_without_downloading_them(base: Path) -> None:
    hub = hub_of(base)
    lock = lock_hub(hub, REPO, "main", template_given=False)
    assert "model.safetensors" in lock.files
    assert "model.safetensors" not in hub.downloads


def test_pickles_and_code_beside_safe_weights_stay_on_the_hub(base: Path) -> None:
    for name in ("pytorch_model.bin", "training_args.bin", "convert.py", ".gitattributes", "weights.gguf"):
        (base / name).write_bytes(b"x")
    hub = hub_of(base)
    lock = lock_hub(hub, REPO, "main", template_given=False)
    assert not {"pytorch_model.bin", "training_args.bin", "convert.py", ".gitattributes", "weights.gguf"} & set(
        lock.files
    )
    assert set(hub.downloads) < set(lock.files)


def test_a_second_copy_of_the_weights_is_not_taken(base: Path) -> None:
    shutil.copy(base / "model.safetensors", base / "consolidated.safetensors")
    assert "consolidated.safetensors" not in lock_hub(hub_of(base), REPO, "main", template_given=False).files


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda base: (base / "model.safetensors").rename(base / "pytorch_model.bin"), "no safetensors weights"),
        (
            lambda base: (base / INDEX).write_text('{"weight_map": {"a": "b.safetensors"}}'),
            "lists b.safetensors, which",
        ),
        (lambda base: (base / "tokenizer.json").unlink(), "tokenizer.json is missing"),
        (lambda base: (base / "config.json").write_text('{"auto_map": {}}'), "points to custom code"),
    ],
    ids=["pickle weights only", "a missing shard", "no tokenizer", "code"],
)
def test_what_no_folder_may_have_is_refused_on_the_hub_too(
    base: Path, change: Callable[[Path], object], words: str
) -> None:
    change(base)
    assert words in refused(hub_of(base))


def test_a_model_without_template_is_refused_unless_the_recipe_names_one(tmp_path: Path) -> None:
    hub = hub_of(make_fake_base(tmp_path / "plain", with_template=False))
    assert "no chat template" in refused(hub)
    lock_hub(hub, REPO, "main", template_given=True)


def test_a_text_file_that_was_tampered_with_is_refused(base: Path) -> None:
    hub = FakeHub()
    commit = hub.commit(REPO, base)
    honest = hub.snapshot(REPO, commit)
    hub.tamper(REPO, commit, "tokenizer_config.json")
    hub.snapshot = lambda repo, revision: honest  # type: ignore[method-assign]
    assert "tokenizer_config.json does not match the git blob id" in refused(hub)
