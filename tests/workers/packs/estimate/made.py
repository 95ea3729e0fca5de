"""Architectures and set-ups for tests."""

from typing import Any

from ft_assets.settings.bounds import Bounds
from ft_assets.workers.model_size.memory import Setup
from ft_assets.workers.model_size.model_size import Architecture, read_architecture

LLAMA_3_8B: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}


def llama(**changes: Any) -> Architecture:
    """A Llama of two layers, 64 wide, unless said otherwise."""
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 96,
        "vocab_size": 100,
        "tie_word_embeddings": True,
    }
    found = read_architecture(config | changes)
    assert found is not None
    assert not found.rough
    return found


def share(value: float) -> Bounds:
    return Bounds(lower=value, expected=value, upper=value)


def setup(**changes: Any) -> Setup:
    values: dict[str, Any] = {
        "variant": "lora",
        "precision": "fp32",
        "tokens": 1000,
        "learned": share(0.25),
        "rank": 4,
        "gpus": 0,
    }
    return Setup(**values | changes)
