"""The shipped base's architecture, tokenizer and chat format, and how they are written to disk."""

import json
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from tools.demo_base.copying import Turns
from tools.demo_base.induction import seed_copying

CONTEXT = 512
VOCABULARY = 3072
BOS, PAD, SYSTEM, USER, ASSISTANT, END = (
    "<|bos|>",
    "<|pad|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|end|>",
)
SPECIALS = (BOS, PAD, SYSTEM, USER, ASSISTANT, END)
_ROLES = {"system": SYSTEM, "user": USER, "assistant": ASSISTANT}
# Words keep their leading space, digits and punctuation stand alone: a value is then the same tokens wherever it
# occurs, which is what makes copying it easy.
_PIECES = Regex(r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]|\s+(?!\S)|\s+")
CHAT_TEMPLATE = """\
{{- bos_token }}
{%- for message in messages %}
{%- if message['role'] == 'system' %}
{{- '<|system|>' + message['content'] + eos_token }}
{%- elif message['role'] == 'user' %}
{{- '<|user|>' + message['content'] + eos_token }}
{%- elif message['role'] == 'assistant' %}
{{- '<|assistant|>' }}{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}
{%- else %}
{{- raise_exception('unknown role ' + message['role'] + ': use system, user or assistant') }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|assistant|>' }}
{%- endif %}
"""


def render(turns: Turns) -> str:
    """What CHAT_TEMPLATE makes of the turns; a lone "text" turn is left bare and ended."""
    if turns[0][0] == "text":
        return turns[0][1] + END
    return BOS + "".join(f"{_ROLES[role]}{text}{END}" for role, text in turns)


def build_tokenizer(books: Sequence[str], code_like: Sequence[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE of VOCABULARY tokens. It adds no BOS by itself: the template does, once."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(_PIECES, behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    paragraphs = [p for book in books for p in book.split("\n\n")]
    tokenizer.train_from_iterator([*paragraphs, *code_like], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[SYSTEM, USER, ASSISTANT],
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def build_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """3.5 M float32 parameters from torch's global seed: random, but for the copying circuit of induction.py."""
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=256,
            intermediate_size=640,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": 500_000.0},
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    seed_copying(model)
    return model


def save_base(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path, log: Sequence[dict[str, float]]
) -> None:
    """Write a bfloat16 copy, tokenizer, template and log; the running model keeps its float32 weights."""
    folder.mkdir(parents=True, exist_ok=True)
    half = deepcopy(model)
    torch.nn.Module.to(half, torch.bfloat16)
    half.config.dtype = torch.bfloat16
    half.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        do_sample=False,
    )
    half.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # Beside the folder, not in it: every file in a base's folder is part of its content digest.
    (folder.parent / "training_log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in log))
