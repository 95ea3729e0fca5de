"""Packs, evaluation and the exported folder read a text as the same ids, whatever class transformers would take."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from ft_assets.workers.base_models.token_ids import examine_tokenizer, load_tokenizer, probe_texts, settle_tokenizer
from ft_assets.workers.base_models.transformers_ids import ask
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadBase
from tests.fake_base import make_fake_base
from tests.workers.base_models.made import rebuilt_base


def as_packs(tokenizer: Any, folder: Path, texts: list[str]) -> bool:
    packs = ChatTokenizer.load(folder).tokenizer
    return all(tokenizer(text)["input_ids"] == packs.encode(text).ids for text in texts)


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rebuilt_base(tmp_path_factory.mktemp("bases") / "rebuilt")


@pytest.fixture(scope="module")
def loaded(rebuilt: Path) -> Any:
    return load_tokenizer(rebuilt)


def test_where_nothing_differs_nothing_is_said_and_no_byte_changes(base: Path) -> None:
    before = {path.name: path.read_bytes() for path in base.iterdir()}
    assert examine_tokenizer(base) == ""
    settle_tokenizer(base)
    assert {path.name: path.read_bytes() for path in base.iterdir()} == before


def test_a_tokenizer_that_transformers_builds_anew_is_told_in_words_with_an_example(rebuilt: Path) -> None:
    assert not as_packs(AutoTokenizer.from_pretrained(rebuilt), rebuilt, ["<|user|>hi"])
    warning = examine_tokenizer(rebuilt)
    assert (
        "reads this base's tokenizer in another way than its tokenizer.json: ' hello' is ['▁', 'he', 'l', 'l', 'o']"
        in warning
    )
    assert "Load the tokenizer from the adapter's folder, not from the base" in warning
    assert "cannot be exported" not in warning


@given(
    st.lists(st.sampled_from(["<|user|>", "<|end|>", " ", "\n", "hi", "the", "é", "🙂", "\u200b", "語"]), max_size=8)
)
def test_evaluation_reads_every_text_as_packs_do(rebuilt: Path, loaded: Any, pieces: list[str]) -> None:
    assert as_packs(loaded, rebuilt, ["".join(pieces)])


@pytest.mark.parametrize("model_type", [None, "llama", "phi3", "gemma", "qwen3", "mistral"])
def test_the_exported_folder_gives_the_ids_of_packs_whatever_the_model(tmp_path: Path, model_type: str | None) -> None:
    folder = rebuilt_base(tmp_path / "exported", model_type)
    settle_tokenizer(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert as_packs(tokenizer, folder, probe_texts(ChatTokenizer.load(folder)))
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == ("<|bos|>", "<|end|>", "<|end|>")


def test_an_adapters_folder_may_be_read_otherwise_than_its_base_and_is_settled_too(tmp_path: Path) -> None:
    """transformers knows that Phi-3's settings name a wrong class, but only from a config.json, which adapters lack."""
    base = rebuilt_base(tmp_path / "base", "phi3")
    assert examine_tokenizer(base) == ""
    adapter = rebuilt_base(tmp_path / "adapter", None)
    texts = ["<|user|>\nhi<|end|>"]
    assert not as_packs(AutoTokenizer.from_pretrained(adapter), adapter, texts)
    settle_tokenizer(adapter)
    assert as_packs(AutoTokenizer.from_pretrained(adapter), adapter, texts)


def test_a_full_model_that_no_settings_help_is_refused_by_name_and_warned_of_before_it_is_trained(
    tmp_path: Path,
) -> None:
    """For Qwen2 models transformers takes one class whatever the settings say."""
    folder = rebuilt_base(tmp_path / "qwen", "qwen2")
    assert "A fully trained model of this base cannot be exported" in examine_tokenizer(folder)
    with pytest.raises(
        BadBase,
        match="transformers, loading this folder, would tokenize texts differently than training did: 'hello' is",
    ):
        settle_tokenizer(folder)


@pytest.mark.parametrize(
    "change",
    [{"split_special_tokens": True}, {"extra_special_tokens": ["hello"]}, {"tokenizer_class": "NoSuchTokenizer"}],
)
def test_settings_that_would_split_or_add_tokens_do_not_survive_the_export(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    folder = make_fake_base(tmp_path / "base")
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **change}))
    settle_tokenizer(folder)
    assert as_packs(
        AutoTokenizer.from_pretrained(folder),
        folder,
        ["<|user|>hello<|end|>", *probe_texts(ChatTokenizer.load(folder))],
    )


def test_a_token_that_only_transformers_knows_by_name_does_not_survive_the_export(tmp_path: Path) -> None:
    """The template would begin with it when it is served, and did not in training."""
    folder = make_fake_base(tmp_path / "base")
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_bytes()).items() if k != "bos_token"}))
    (folder / "special_tokens_map.json").write_text(json.dumps({"bos_token": "<|bos|>"}))
    assert AutoTokenizer.from_pretrained(folder).bos_token == "<|bos|>"
    assert "bos_token is '<|bos|>' there and None here" in examine_tokenizer(folder)
    settle_tokenizer(folder)
    assert AutoTokenizer.from_pretrained(folder).bos_token is None


def test_a_base_whose_tokenizer_transformers_cannot_follow_is_refused_before_anything_is_trained(
    tmp_path: Path,
) -> None:
    folder = make_fake_base(tmp_path / "base")
    path = folder / "tokenizer_config.json"
    # transformers adds the token, which stands in no vocabulary, and finds it in every greeting.
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "extra_special_tokens": ["hello"]}))
    with pytest.raises(BadBase, match=r"cannot load the tokenizer .*'hello' is"):
        examine_tokenizer(folder)


@pytest.mark.subprocess
def test_a_process_without_pytorch_answers_as_this_one(rebuilt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [(rebuilt, "AutoTokenizer"), (rebuilt / "nowhere", "PreTrainedTokenizerFast")]
    texts = ["<|user|>\nhi", "語\u200b"]
    here = ask(folders, texts)  # type: ignore[arg-type]
    monkeypatch.delitem(sys.modules, "transformers")
    there = ask(folders, texts)  # type: ignore[arg-type]
    assert there[0] == here[0]
    assert set(there[1]) == set(here[1]) == {"error"}


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("name", "differs"),
    [
        ("tokenizers_ort/phi-3", True),
        ("hf_tokenizers/gpt2", False),
        pytest.param("hf_tokenizers/qwen2.5", False, marks=pytest.mark.long),
        pytest.param("stories260K-hf", False, marks=pytest.mark.long),
    ],
)
def test_real_tokenizers_are_evaluated_and_exported_with_the_ids_of_packs(
    tmp_path: Path, name: str, differs: bool
) -> None:
    data = Path(os.environ["FT_REAL_DATA"])
    folder = tmp_path / "base"
    folder.mkdir()
    for path in (data / name).glob("*.json"):
        shutil.copyfile(path, folder / path.name)
    rows = [json.loads(line) for line in (data / "gsm8k/train.jsonl").read_text().splitlines()[:50]]
    packs = ChatTokenizer.load(folder)
    turn = next(iter(packs.special_ids))
    texts = [*probe_texts(packs), *(f"{turn}\n{row['question']}{turn}\n {row['answer']}{turn}" for row in rows)]
    assert bool(examine_tokenizer(folder)) is differs
    assert as_packs(AutoTokenizer.from_pretrained(folder), folder, texts) is not differs
    assert as_packs(load_tokenizer(folder), folder, texts)
    if differs:
        settle_tokenizer(folder)
        assert as_packs(AutoTokenizer.from_pretrained(folder), folder, texts)
