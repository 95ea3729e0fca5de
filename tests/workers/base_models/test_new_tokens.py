"""A base with new tokens: every reader gives their ids, every table has their rows, and nothing else changes."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from ft_assets.workers.base_models.contents import inspect_base
from ft_assets.workers.base_models.new_tokens import add_new_tokens, require_new
from ft_assets.workers.base_models.token_ids import examine_tokenizer, load_tokenizer
from ft_assets.workers.tokenizers.choice import choose_encoder, equal_ids, open_encoder
from ft_assets.workers.tokenizers.hugging_face import HuggingFaceEncoder
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.canonical import sha256_file
from ft_resources.errors import BadBase
from tests.fake_base import VOCABULARY, make_fake_base
from tests.workers.packs.encoding.tokenizers import KINDS, NAMED

TOKENS = ["zanubrutinib", "<sql>", " ibrutinib", "日本"]
TEXT = "takes zanubrutinib and ibrutinib <sql>select 日本</sql> pseudozanubrutinibs"


def fake(folder: Path, kind: str = "") -> Path:
    make_fake_base(folder)
    if kind:
        KINDS[kind]().save(str(folder / "tokenizer.json"))
        settings = json.loads((folder / "tokenizer_config.json").read_bytes())
        (folder / "tokenizer_config.json").write_text(json.dumps({**settings, **NAMED}))
    return folder


def fitting(folder: Path, kind: str, dtype: torch.dtype, *, spare: int, tied: bool = False) -> Path:
    """A base of several files whose weights have ``spare`` rows more than the tokenizer of this kind has tokens."""
    fake(folder, kind)
    (folder / "model.safetensors").unlink()
    rows = spare + ChatTokenizer.load(folder).tokenizer.get_vocab_size()
    config = LlamaConfig(
        vocab_size=rows,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        tie_word_embeddings=tied,
    )
    torch.manual_seed(3)
    LlamaForCausalLM(config).to(dtype).save_pretrained(folder, max_shard_size="30KB")
    return folder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return {name: value for path in sorted(folder.glob("*.safetensors")) for name, value in load_file(path).items()}


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"unigram", "words"}))
def test_every_engine_and_transformers_give_the_new_ids(tmp_path: Path, kind: str) -> None:
    folder = fitting(tmp_path / "base", kind, torch.float32, spare=0)
    before = ChatTokenizer.load(folder).tokenizer
    add_new_tokens(folder, TOKENS, "recipe.yaml")
    packs = ChatTokenizer.load(folder)
    ids = packs.tokenizer.encode(TEXT, add_special_tokens=False).ids
    new = [packs.tokenizer.token_to_id(token) for token in TOKENS]
    assert new == list(range(before.get_vocab_size(), before.get_vocab_size() + len(TOKENS)))
    assert [number for number in ids if number in new] == [new[0], new[2], new[1], new[3], new[0]]
    assert before.encode(TEXT, add_special_tokens=False).ids != ids
    assert not set(TOKENS) & set(packs.special_ids)
    # The engine that packs choose, and Hugging Face's, which knows every kind.
    choice = choose_encoder(packs, [TEXT, "zanubrutinib", "no new token"])
    exact = HuggingFaceEncoder(packs.tokenizer)
    assert equal_ids(open_encoder(packs, choice.engine), exact, [TEXT, *TOKENS, "x".join(TOKENS)])
    nothing: list[list[tuple[int, int]]] = [[]]
    assert open_encoder(packs, choice.engine).encode([TEXT], nothing, opening=[0]).ids.tolist() == ids
    assert load_tokenizer(folder)(TEXT, add_special_tokens=False)["input_ids"] == ids


def test_a_fast_engine_is_still_chosen_for_byte_level_tokenizers(tmp_path: Path) -> None:
    folder = fake(tmp_path / "base", "qwen")
    add_new_tokens(fitting(folder, "qwen", torch.float32, spare=0), ["<sql>", "select"], "recipe.yaml")
    assert choose_encoder(ChatTokenizer.load(folder), [TEXT]).engine == "compiled"


def test_the_extended_base_passes_every_inspection(tmp_path: Path) -> None:
    folder = make_fake_base(tmp_path / "base")
    add_new_tokens(folder, TOKENS, "recipe.yaml")
    assert inspect_base(folder, "base", template_given=False).parameters == 29_856 + 32 * len(TOKENS)
    assert examine_tokenizer(folder) == ""
    assert json.loads((folder / "config.json").read_bytes())["vocab_size"] == VOCABULARY + len(TOKENS)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.decode(tokenizer(TEXT)["input_ids"]) == TEXT
    again = make_fake_base(tmp_path / "again")
    add_new_tokens(again, TOKENS, "recipe.yaml")
    assert [sha256_file(again / path.name) for path in folder.iterdir()] == [sha256_file(p) for p in folder.iterdir()]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("spare", [0, 1, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_new_rows_are_the_means_of_their_pieces_and_all_others_stay(
    tmp_path: Path, dtype: torch.dtype, spare: int, tied: bool
) -> None:
    folder = fitting(tmp_path / "base", "qwen", dtype, spare=spare, tied=tied)
    before, old = weights(folder), ChatTokenizer.load(folder).tokenizer
    add_new_tokens(folder, TOKENS, "recipe.yaml")
    after, new = weights(folder), ChatTokenizer.load(folder).tokenizer
    tables = {"model.embed_tokens.weight"} | ({"lm_head.weight"} if not tied else set())
    used = old.get_vocab_size()
    for name, value in after.items():
        if name not in tables:
            assert torch.equal(value, before[name])
            continue
        assert len(value) == max(len(before[name]), used + len(TOKENS))
        assert value.dtype == dtype
        assert torch.equal(value[:used], before[name][:used])
        for token in TOKENS:
            pieces = old.encode(token, add_special_tokens=False).ids
            mean = before[name][pieces].double().mean(dim=0).float().to(dtype)
            assert torch.equal(value[new.token_to_id(token)], mean)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.config.vocab_size == len(after["model.embed_tokens.weight"])
    assert model(torch.tensor([[new.token_to_id(TOKENS[0])]])).logits.isfinite().all()
    index = folder / "model.safetensors.index.json"
    if index.exists():
        size = sum(value.numel() * value.element_size() for value in after.values())
        assert json.loads(index.read_bytes())["metadata"]["total_size"] == size


def test_files_that_are_links_into_the_store_are_replaced_and_not_written_to(tmp_path: Path) -> None:
    stored, folder = make_fake_base(tmp_path / "stored"), tmp_path / "linked"
    folder.mkdir()
    for path in stored.iterdir():
        os.link(path, folder / path.name)
    before = {path.name: sha256_file(path) for path in stored.iterdir()}
    add_new_tokens(folder, TOKENS, "recipe.yaml")
    assert {path.name: sha256_file(path) for path in stored.iterdir()} == before


def test_older_lists_of_added_tokens_name_them_too(tmp_path: Path) -> None:
    """transformers adds what ``added_tokens_decoder`` lists, by itself and before it looks at tokenizer.json."""
    folder = make_fake_base(tmp_path / "base")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_bytes())
    listed = {
        str(number): {**json.loads(json.dumps(token.__getstate__())), "special": True}
        for number, token in tokenizer.added_tokens_decoder.items()
    }
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "added_tokens_decoder": listed}))
    (folder / "added_tokens.json").write_text(json.dumps({"<|pad|>": 0}))
    add_new_tokens(folder, TOKENS, "recipe.yaml")
    decoder = json.loads((folder / "tokenizer_config.json").read_bytes())["added_tokens_decoder"]
    assert decoder[str(VOCABULARY)] == {
        "content": TOKENS[0],
        "lstrip": False,
        "normalized": False,
        "rstrip": False,
        "single_word": False,
        "special": False,
    }
    assert json.loads((folder / "added_tokens.json").read_bytes())[TOKENS[0]] == VOCABULARY
    assert examine_tokenizer(folder) == ""


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("the", "the base has it as one token"),
        (" the", "the base has it as one token"),
        ("<|end|>", "the base has it as one token"),
        ("a<|end|>", "it holds the control token '<|end|>'"),
        ("a<|en", "it ends as the control token '<|end|>' begins"),
        ("a<", "it ends as the control token"),
    ],
)
def test_a_token_that_the_base_has_or_that_would_hide_a_control_token_is_refused(
    tmp_path: Path, token: str, reason: str
) -> None:
    folder = make_fake_base(tmp_path / "base")
    with pytest.raises(BadBase) as caught:
        require_new(folder, ["fine", token], "recipe.yaml, new_tokens")
    assert reason in caught.value.what
    assert caught.value.where == "recipe.yaml, new_tokens"


Change = Callable[[Path], Any]


def _without_size(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_bytes())
    config.pop("vocab_size")
    (folder / "config.json").write_text(json.dumps(config))


def _with_more(name: str) -> Change:
    def change(folder: Path) -> None:
        from safetensors.numpy import load_file as load
        from safetensors.numpy import save_file

        tensors = load(folder / "model.safetensors")
        save_file({**tensors, name: np.zeros((VOCABULARY, 4), np.float32)}, folder / "model.safetensors")

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_without_size, "no embedding of vocab_size rows was found"),
        (_with_more("model.per_layer.weight"), "model.per_layer.weight has a row for each token too"),
    ],
)
def test_weights_that_are_not_understood_are_refused(tmp_path: Path, change: Change, reason: str) -> None:
    folder = make_fake_base(tmp_path / "base")
    change(folder)
    with pytest.raises(BadBase, match=reason):
        add_new_tokens(folder, TOKENS, "recipe.yaml")
