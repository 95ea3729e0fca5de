"""A tokenizer that llama.cpp does not know is converted by an equal way to split texts, or not at all."""

import json
from pathlib import Path

from ft_assets.workers.exports.pre_tokenizers import pre_tokenizer_of
from tests.fake_base import make_fake_base

TEXTS = ["what colour is thing 12?", "it's grey\n\nor is it"]


def retold(folder: Path, pattern: str) -> Path:
    """The base with a tokenizer that splits by ``pattern`` and has whole words for what that leaves together."""
    make_fake_base(folder)
    settings = json.loads((folder / "tokenizer.json").read_bytes())
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    settings["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [
            split,
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        ],
    }
    merged = {**settings["model"]["vocab"], "12": 287}
    merged = {token: number for token, number in merged.items() if number != 287 or token == "12"}
    settings["model"]["vocab"] = merged
    settings["model"]["merges"] = [
        each for each in settings["model"]["merges"] if "".join(each) in merged and "12" not in each
    ] + [["1", "2"]]
    (folder / "tokenizer.json").write_text(json.dumps(settings))
    return folder


def test_the_way_that_gives_the_tokenizers_own_ids_is_taken(tmp_path: Path) -> None:
    assert pre_tokenizer_of(make_fake_base(tmp_path / "plain"), TEXTS) == "gpt-2"
    assert pre_tokenizer_of(retold(tmp_path / "digits", r"\p{N}| ?\p{L}+|\s+|[^\s\p{L}\p{N}]"), TEXTS) == "smollm"


def test_a_tokenizer_that_splits_otherwise_has_none(tmp_path: Path) -> None:
    assert pre_tokenizer_of(retold(tmp_path / "letters", "."), [*TEXTS, "the question is the question"]) == ""


def test_what_is_not_split_at_all_needs_none(tmp_path: Path) -> None:
    folder = make_fake_base(tmp_path / "base")
    settings = json.loads((folder / "tokenizer.json").read_bytes())
    (folder / "tokenizer.json").write_text(json.dumps({**settings, "pre_tokenizer": None}))
    assert pre_tokenizer_of(folder, TEXTS) == ""
