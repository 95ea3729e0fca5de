import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from ft_assets.workers.base_models.contents import INDEX, inspect_base, is_safe_name
from ft_assets.workers.base_models.lock import lock_folder
from ft_resources.errors import BadBase
from tests.fake_base import CHAT_TEMPLATE, make_fake_base

PARAMETERS = 29_856


def refused(folder: Path, *, template_given: bool = False) -> str:
    with pytest.raises(BadBase) as caught:
        lock_folder(folder, "recipe.yaml, base", template_given=template_given)
    assert caught.value.where == "recipe.yaml, base" or caught.value.where.startswith("recipe.yaml, base, ")
    assert caught.value.remedy
    return caught.value.what


def edit_json(path: Path, **changes: object) -> None:
    value = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**value, **changes}))


def test_a_whole_folder_is_inspected_without_torch(base: Path) -> None:
    facts = inspect_base(base, "base", template_given=False)
    assert (facts.architecture, facts.parameters, facts.template) == ("LlamaForCausalLM", PARAMETERS, CHAT_TEMPLATE)


def test_the_parameter_count_is_the_one_transformers_finds(base: Path) -> None:
    from transformers import AutoModelForCausalLM

    model, loading = AutoModelForCausalLM.from_pretrained(base, output_loading_info=True)
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS


def test_the_digest_depends_on_names_and_bytes_alone(base: Path, tmp_path: Path) -> None:
    lock = lock_folder(base, "base", template_given=False)
    elsewhere = make_fake_base(tmp_path / "other" / "name")
    (elsewhere / ".cache").mkdir()
    assert lock_folder(elsewhere, "base", template_given=False) == lock
    assert lock_folder(make_fake_base(elsewhere, seed=1), "base", template_given=False).digest != lock.digest
    (base / "README.md").write_text("a card")
    assert lock_folder(base, "base", template_given=False).digest != lock.digest


def _empty(base: Path) -> None:
    for path in base.iterdir():
        path.unlink()


def _archive(base: Path) -> None:
    with zipfile.ZipFile(base / "vocab.txt", "w") as archive:
        archive.writestr("data.pkl", b"x")


def _link(base: Path) -> None:
    (base / "config.json").symlink_to((base / "config.json").rename(base.parent / "config.json"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_empty, "config.json is missing"),
        (lambda base: os.mkfifo(base / "extra.json"), "extra.json is not a regular file"),
        (_archive, "vocab.txt is a pickle or an archive"),
        (_link, "config.json is a symbolic link"),
        (lambda base: (base / "onnx").mkdir(), "onnx is a folder inside"),
        (lambda base: save_file({}, base / "model.safetensors"), "model.safetensors holds no weights"),
    ],
    ids=[
        "an empty folder",
        "a pipe",
        "a torch archive",
        "a symbolic link",
        "a folder inside",
        "weights without tensors",
    ],
)
def test_what_is_no_folder_of_plain_files_is_refused_and_no_pipe_waited_for(
    base: Path, change: Callable[[Path], object], words: str
) -> None:
    change(base)
    assert words in refused(base)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_base_without_an_essential_file_is_refused(base: Path, name: str) -> None:
    (base / name).unlink()
    assert name in refused(base)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        *((f"x.{kind}", b"harmless", "may be a pickle") for kind in ("bin", "pt", "pth", "pkl", "ckpt", "npy")),
        ("model.safetensors", pickle.dumps({"a": [1] * 1000}), "is not a safetensors file"),
        ("modeling.py", b"", "is code"),
        *((name, b"{}", "is not a file of a base") for name in ("weights.gguf", "a b.json", "model.onnx", "run.sh")),
        *(("generation_config.json", content, "is not valid JSON") for content in (b"{" * 5000, b"[" * 50_000)),
        ("merges.txt", b"\xff\xfe", "is not UTF-8"),
        ("tokenizer.json", b"{}", "cannot be read"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_of_the_wrong_kind_or_content_is_refused_by_name(
    base: Path, name: str, content: bytes, words: str
) -> None:
    (base / name).write_bytes(content)
    assert f"{name} {words}" in refused(base)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        *(
            (f"{part}config.json", {"auto_map": {"AutoModelForCausalLM": "modeling.Evil"}}, "points to custom code")
            for part in ("", "tokenizer_", "generation_")
        ),
        ("config.json", {"text_config": [{"x": {"auto_map": {}}}]}, "points to custom code"),
        ("config.json", {"architectures": []}, "names no architecture"),
        ("adapter_config.json", {"peft_type": "LORA"}, "this is an adapter"),
        (INDEX, {"weight_map": {"a": "../../model.safetensors"}}, "does not list safetensors files"),
        ("tokenizer_config.json", {"chat_template": "{% if %}"}, "the chat template is not valid Jinja"),
    ],
)
def test_custom_code_adapters_and_settings_that_make_no_sense_are_refused(
    base: Path, name: str, changes: dict[str, object], words: str
) -> None:
    edit_json(base / name, **changes)
    assert words in refused(base)


@pytest.mark.parametrize("keep", [0, 7, 100, -1])
def test_weights_that_are_cut_short_are_refused(base: Path, keep: int) -> None:
    data = (base / "model.safetensors").read_bytes()
    (base / "model.safetensors").write_bytes(data[:keep])
    assert "model.safetensors" in refused(base)


@pytest.mark.parametrize(
    "header",
    [b"[]", b"{x", b"[" * 50_000, b'{"a": 1}', b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 0]}}'],
)
def test_weights_with_a_senseless_header_are_refused(base: Path, header: bytes) -> None:
    (base / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    assert "header that cannot be read" in refused(base)


@pytest.mark.parametrize("name", ["LICENSE.bin", "README.py", "NOTICE.pt", "README.md.pkl", "COPYING.so", "LICENSES/x"])
def test_a_licence_that_is_a_program_by_its_name_is_refused(name: str) -> None:
    assert not is_safe_name(name)
    for kept in ("LICENSE", "LICENSE-MIT", "NOTICE.txt", "README.md", "COPYING.rst", "USE_POLICY.pdf"):
        assert is_safe_name(kept)


@pytest.mark.parametrize("name", ["vocab.txt", "extra.json", "tokenizer.model", "README.md", "LICENSE"])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickles_are_refused_by_their_first_bytes(base: Path, name: str, protocol: int) -> None:
    (base / name).write_bytes(pickle.dumps({"a": 1}, protocol=protocol))
    assert f"{name} is a pickle" in refused(base)


Tensor = dict[str, object]


def rewrite_header(path: Path, change: Callable[[dict[str, Tensor]], None]) -> None:
    """The same data below another header."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    tensors = json.loads(data[8 : 8 + length])
    change(tensors)
    header = json.dumps(tensors).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length :])


@pytest.mark.parametrize(
    "lie",
    [{"shape": [10**30]}, {"shape": [1]}, {"dtype": "F64"}, {"dtype": "EVIL"}, {"data_offsets": [0, 4]}],
    ids=["huge", "small", "wider", "unknown type", "overlap"],
)
def test_weights_whose_header_lies_about_a_tensor_are_refused(base: Path, lie: Tensor) -> None:
    rewrite_header(base / "model.safetensors", lambda tensors: tensors["model.norm.weight"].update(lie))
    assert "header that cannot be read" in refused(base)


def test_shards_are_those_of_the_index(base: Path) -> None:
    weights = load_file(base / "model.safetensors")
    (base / "model.safetensors").unlink()
    names = sorted(weights)
    parts = {"a.safetensors": names[:9], "b.safetensors": names[9:]}
    for name, tensors in parts.items():
        save_file({tensor: weights[tensor] for tensor in tensors}, base / name)
    weight_map = {tensor: name for name, tensors in parts.items() for tensor in tensors}
    edit_json(base / INDEX, weight_map=weight_map)
    assert inspect_base(base, "base", template_given=False).parameters == PARAMETERS
    save_file({"z": np.zeros(1, np.float32)}, base / "c.safetensors")
    assert "c.safetensors does not belong to the model's weights" in refused(base)
    (base / "c.safetensors").unlink()
    (base / "b.safetensors").unlink()
    assert "b.safetensors is listed in" in refused(base)


def test_a_vocabulary_may_hold_any_word(base: Path) -> None:
    edit_json(base / "added_tokens.json", auto_map=7)
    lock_folder(base, "base", template_given=False)


@pytest.mark.parametrize("part", ["vision_config", "audio_config"])
def test_a_model_with_other_parts_is_refused_where_its_text_part_was_not_tried(base: Path, part: str) -> None:
    config = json.loads((base / "config.json").read_bytes())
    for kind, refused in (("aria", True), ("gemma3", False)):
        (base / "config.json").write_text(json.dumps({**config, "model_type": kind, part: {}}))
        if refused:
            with pytest.raises(BadBase, match="aria is not trained: it has more than a text part"):
                inspect_base(base, "base", template_given=False)
        else:
            inspect_base(base, "base", template_given=False)


def no_template(folder: Path) -> None:
    make_fake_base(folder, with_template=False)


def empty_template(folder: Path) -> None:
    edit_json(folder / "tokenizer_config.json", chat_template="  ")


def no_default_template(folder: Path) -> None:
    edit_json(folder / "tokenizer_config.json", chat_template=[{"name": "rag", "template": "x"}])


@pytest.mark.parametrize("break_it", [no_template, empty_template, no_default_template])
def test_a_base_without_a_template_is_refused_unless_the_recipe_names_one(
    base: Path, break_it: Callable[[Path], None]
) -> None:
    break_it(base)
    assert "no chat template and the recipe names none" in refused(base)
    lock_folder(base, "base", template_given=True)


def test_templates_are_found_where_transformers_finds_them(base: Path) -> None:
    from transformers import AutoTokenizer

    edit_json(base / "tokenizer_config.json", chat_template=[{"name": "default", "template": "{{ 1 }}"}])
    assert inspect_base(base, "base", template_given=False).template == "{{ 1 }}"
    (base / "chat_template.jinja").write_text("{{ 2 }}")
    found = inspect_base(base, "base", template_given=False).template
    assert found == "{{ 2 }}" == AutoTokenizer.from_pretrained(base).chat_template
