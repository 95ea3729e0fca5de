"""A tiny random base model that any test can have in milliseconds: a real Llama folder, made without torch."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HIDDEN, LAYERS, HEADS, FEED_FORWARD, CONTEXT, VOCABULARY = 32, 2, 2, 64, 256, 288
BOS, END, PAD = "<|bos|>", "<|end|>", "<|pad|>"
SPECIALS = [PAD, BOS, END, "<|system|>", "<|user|>", "<|assistant|>"]

# One assistant turn is "<|assistant|>", the learned text and the learned end token; there is no BOS.
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'assistant' -%}"
    "{{- '<|assistant|>' -}}{% generation %}{{- message['content'] + '<|end|>' -}}{% endgeneration %}"
    "{%- else -%}"
    "{{- '<|' + message['role'] + '|>' + message['content'] + '<|end|>' -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)
_TEXT = "the quick brown fox answers the question: what is the name of the other one and where is it in the house?"


def make_fake_base(folder: Path, *, with_template: bool = True, seed: int = 0, context: int = CONTEXT) -> Path:
    """Fill ``folder`` with config, weights (float32), byte-level BPE tokenizer and, if asked, a chat template."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**_config(), "max_position_embeddings": context}, indent=2))
    (folder / "generation_config.json").write_text(json.dumps({"bos_token_id": 1, "eos_token_id": 2}))
    save_file(_weights(seed), folder / "model.safetensors", metadata={"format": "pt"})
    _tokenizer().save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": END,
        "pad_token": PAD,
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
    }
    if with_template:
        settings["chat_template"] = CHAT_TEMPLATE
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2))
    return folder


def _config() -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "intermediate_size": FEED_FORWARD,
        "max_position_embeddings": CONTEXT,
        "vocab_size": VOCABULARY,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "dtype": "float32",
    }


def _weights(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)

    def random(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * 0.05).astype(np.float32)

    ones = np.ones(HIDDEN, np.float32)
    weights = {"model.embed_tokens.weight": random(VOCABULARY, HIDDEN), "model.norm.weight": ones}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            weights[f"{prefix}.self_attn.{name}.weight"] = random(HIDDEN, HIDDEN)
        weights[f"{prefix}.mlp.gate_proj.weight"] = random(FEED_FORWARD, HIDDEN)
        weights[f"{prefix}.mlp.up_proj.weight"] = random(FEED_FORWARD, HIDDEN)
        weights[f"{prefix}.mlp.down_proj.weight"] = random(HIDDEN, FEED_FORWARD)
        weights[f"{prefix}.input_layernorm.weight"] = ones
        weights[f"{prefix}.post_attention_layernorm.weight"] = ones
    return weights


def _tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([_TEXT] * 2, trainer)
    return tokenizer
