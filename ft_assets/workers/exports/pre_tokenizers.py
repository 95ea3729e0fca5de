"""Which of llama.cpp's pre-tokenizers gives the ids of a tokenizer that llama.cpp does not know."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTIONS = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_AFTER = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WAYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "gpt-2": (_GPT2,),
        "smollm": (r"\p{N}", _GPT2),
        "qwen2": (_CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + _AFTER,),
        "smaug-bpe": (_CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + _AFTER,),
    }
)
"""llama.cpp's name, and the patterns that split a text, one after the other (``llama-vocab.cpp``)."""


def pre_tokenizer_of(folder: Path, texts: Sequence[str]) -> str:
    """The name of the first of ``WAYS`` that gives the ids of the tokenizer in ``folder`` for all ``texts``; "" if none
    does.

    Only byte-level BPE has a pre-tokenizer. Each is tried in place of the tokenizer's own.
    """
    from tokenizers import Tokenizer

    settings = json.loads((folder / "tokenizer.json").read_bytes())
    if settings["model"].get("type") != "BPE" or "ByteLevel" not in json.dumps(settings.get("pre_tokenizer")):
        return ""
    expected = _ids(Tokenizer.from_str(json.dumps(settings)), texts)
    for name, patterns in WAYS.items():
        other = Tokenizer.from_str(json.dumps({**settings, "pre_tokenizer": _splitting(patterns)}))
        if _ids(other, texts) == expected:
            return name
    return ""


def _ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    return [found.ids for found in tokenizer.encode_batch(list(texts), add_special_tokens=False)]


def _splitting(patterns: Sequence[str]) -> dict[str, Any]:
    splits = [
        {"type": "Split", "pattern": {"Regex": each}, "behavior": "Isolated", "invert": False} for each in patterns
    ]
    bytes_only = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"type": "Sequence", "pretokenizers": [*splits, bytes_only]}
