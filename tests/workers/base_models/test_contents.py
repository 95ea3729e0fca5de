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


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_base_without_an_essential_file_is_refused(base: Path, name: str) -> None:
    (base / name).unlink()
    assert name in refused(base)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "config.json is missing" in refused(tmp_path / "empty")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "optimizer.pkl", "x.ckpt", "x.npy"])
def test_pickles_are_refused_by_name(base: Path, name: str) -> None:
    (base / name).write_bytes(b"harmless")
    assert f"{name} may be a pickle" in refused(base)


def test_a_pipe_in_a_bases_folder_is_refused_and_not_waited_for(base: Path) -> None:
    os.mkfifo(base / "extra.json")
    assert "extra.json is not a regular file" in refused(base)


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


def test_torch_archives_are_refused_under_any_name(base: Path) -> None:
    with zipfile.ZipFile(base / "vocab.txt", "w") as archive:
        archive.writestr("data.pkl", b"x")
    assert "vocab.txt is a pickle or an archive" in refused(base)


def test_a_pickle_that_calls_itself_safetensors_is_refused(base: Path) -> None:
    (base / "model.safetensors").write_bytes(pickle.dumps({"a": [1] * 1000}))
    assert "model.safetensors is not a safetensors file" in refused(base)


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


def test_weights_without_a_tensor_are_refused(base: Path) -> None:
    save_file({}, base / "model.safetensors")
    assert "model.safetensors holds no weights" in refused(base)


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


def test_an_index_cannot_point_out_of_the_folder(base: Path) -> None:
    edit_json(base / INDEX, weight_map={"a": "../../model.safetensors"})
    assert "does not list safetensors files" in refused(base)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "generation_config.json"])
def test_custom_code_is_refused(base: Path, name: str) -> None:
    edit_json(base / name, auto_map={"AutoModelForCausalLM": "modeling.Evil"})
    assert f"{name} points to custom code" in refused(base)


def test_custom_code_deep_inside_is_refused(base: Path) -> None:
    edit_json(base / "config.json", text_config=[{"x": {"auto_map": {}}}])
    assert "points to custom code" in refused(base)


def test_a_vocabulary_may_hold_any_word(base: Path) -> None:
    edit_json(base / "added_tokens.json", auto_map=7)
    lock_folder(base, "base", template_given=False)


def test_python_files_are_refused(base: Path) -> None:
    (base / "modeling.py").write_text("")
    assert "modeling.py is code" in refused(base)


def test_symbolic_links_are_refused(base: Path) -> None:
    target = (base / "config.json").rename(base.parent / "config.json")
    (base / "config.json").symlink_to(target)
    assert "config.json is a symbolic link" in refused(base)


def test_folders_inside_are_refused(base: Path) -> None:
    (base / "onnx").mkdir()
    assert "onnx is a folder inside" in refused(base)


@pytest.mark.parametrize("name", ["weights.gguf", "a b.json", "model.onnx", "run.sh"])
def test_files_of_other_kinds_are_refused(base: Path, name: str) -> None:
    (base / name).write_text("{}")
    assert f"{name} is not a file of a base model" in refused(base)


def test_an_adapter_is_not_a_base(base: Path) -> None:
    edit_json(base / "adapter_config.json", peft_type="LORA")
    assert "this is an adapter" in refused(base)


def test_broken_json_and_text_are_refused(base: Path) -> None:
    (base / "generation_config.json").write_text("{" * 5000)
    assert "generation_config.json is not valid JSON" in refused(base)
    (base / "generation_config.json").write_text("[" * 50_000)
    assert "generation_config.json is not valid JSON" in refused(base)
    (base / "generation_config.json").unlink()
    (base / "merges.txt").write_bytes(b"\xff\xfe")
    assert "merges.txt is not UTF-8" in refused(base)


def test_a_tokenizer_that_cannot_be_read_is_refused(base: Path) -> None:
    (base / "tokenizer.json").write_text("{}")
    assert "tokenizer.json cannot be read" in refused(base)


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


def test_a_config_without_architecture_is_refused(base: Path) -> None:
    edit_json(base / "config.json", architectures=[])
    assert "names no architecture" in refused(base)


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


def test_a_template_that_is_not_jinja_is_refused(base: Path) -> None:
    edit_json(base / "tokenizer_config.json", chat_template="{% if %}")
    assert "the chat template is not valid Jinja" in refused(base)
