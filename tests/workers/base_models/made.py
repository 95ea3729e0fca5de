"""Bases whose tokenizers transformers misreads."""

import json
from pathlib import Path
from typing import Any

from tests.fake_base import make_fake_base
from tests.workers.packs.encoding.tokenizers import NAMED, sentencepiece

# As Phi-3's, Llama 2's and TinyLlama's: transformers 5 builds LlamaTokenizer anew, with another rule for spaces.
REBUILT = {**NAMED, "unk_token": "<unk>", "tokenizer_class": "LlamaTokenizer", "legacy": False}


def rebuilt_base(folder: Path, model_type: str | None = "llama", **changes: Any) -> Path:
    """A base whose tokenizer transformers' class for it reads in another way than its tokenizer.json says."""
    make_fake_base(folder)
    sentencepiece().save(str(folder / "tokenizer.json"))
    config = json.loads((folder / "config.json").read_bytes())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": model_type}))
    if model_type is None:
        (folder / "config.json").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps({**REBUILT, **changes}))
    return folder
