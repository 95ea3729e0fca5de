"""Random models of some 20,000 weights, of any architecture of transformers."""

from typing import Any

import torch
from transformers import AutoModelForCausalLM


def shape(vocab_size: int, spread: float) -> dict[str, Any]:
    """The sizes that architectures share; ``spread`` is of the first weights, large enough to tell choices apart."""
    return {
        "vocab_size": vocab_size,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "initializer_range": spread,
        "pad_token_id": 0,
    }


def made(config: Any) -> Any:
    torch.manual_seed(1)
    return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").float().eval()
