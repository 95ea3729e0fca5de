"""Templates that a recipe takes by name."""

import json
from pathlib import Path

import pytest
import yaml
from tokenizers import AddedToken, Tokenizer

from ft_assets.control.recipes.load import load_recipe
from ft_assets.settings.recipe.ready_templates import ready_name, ready_templates
from ft_assets.workers.tokenizers.chat_template import load_template
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadBase, BadRecipe
from tests.workers.packs.conftest import Workbench, chat

CONTROL = {
    "chatml": ["<|im_start|>", "<|im_end|>"],
    "llama3": ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
    "qwen3": ["<|im_start|>", "<|im_end|>"],
    "gemma": ["<start_of_turn>", "<end_of_turn>"],
    "mistral": ["[INST]", "[/INST]"],
    "harmony": ["<|start|>", "<|message|>", "<|channel|>", "<|return|>"],
}


def recipe(folder: Path, template: str) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump({"key": "acme.r.v1", "base": "folder:base", "chat_template": template}))
    return path


def with_tokens(workbench: Workbench, tokens: list[str]) -> None:
    file = workbench.base_folder / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in tokens])
    tokenizer.save(str(file))
    config = workbench.base_folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"vocab_size": tokenizer.get_vocab_size()}))


@pytest.mark.parametrize("name", CONTROL)
def test_a_ready_template_packs_conversations_and_passes_the_doctor(name: str, workbench: Workbench) -> None:
    with_tokens(workbench, CONTROL[name])
    rows = [chat(f"q {number}?", f"a {number}", "and?", "so.") for number in range(4)]
    text = ready_templates()[name]
    result = workbench.build(workbench.dataset(rows, rows[:1]), chat_template=text, max_length=512, overlong="drop")
    evidence = json.loads((result.folder / "evidence" / "doctor.json").read_text())
    assert [check["detail"] for check in evidence["checks"] if not check["passed"]] == []


@pytest.mark.parametrize("name", [*CONTROL, "plain"])
def test_a_recipe_takes_it_by_name_and_keeps_its_text(name: str, tmp_path: Path) -> None:
    loaded = load_recipe(recipe(tmp_path, name))
    assert loaded.chat_template == ready_templates()[name]
    assert ready_templates()[ready_name(loaded.chat_template) or ""] == loaded.chat_template


def test_a_name_that_is_neither_file_nor_template_is_told_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(BadRecipe, match="no ready template of this name") as caught:
        load_recipe(recipe(tmp_path, "lama3"))
    assert "chatml" in str(caught.value)
    assert "llama3" in str(caught.value)


@pytest.mark.parametrize(("name", "end"), [("chatml", "<|im_end|>"), ("llama3", "<|eot_id|>")])
def test_a_base_without_the_template_s_end_of_turn_is_refused_by_name(name: str, end: str, base_folder: Path) -> None:
    with pytest.raises(BadBase, match=end.replace("|", r"\|")):
        load_template(base_folder, ChatTokenizer.load(base_folder), ready_templates()[name])
