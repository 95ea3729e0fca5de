"""The same claims over real tokenizers and real text."""

import importlib.util
import json
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer

from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.templates.tracing import learned_spans
from ft_assets.workers.tokenizers.chat_template import load_template
from ft_assets.workers.tokenizers.segments import Tokens
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from tests.workers.packs.conftest import Conversation, chat
from tests.workers.packs.corners import corners

pytestmark = [
    pytest.mark.realdata,
]
TRL = Path(str(importlib.util.find_spec("trl").origin)).parent / "chat_templates"  # type: ignore[union-attr]
PLAIN = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}Answer: "
    "{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}\n"
    "{% else %}Question: {{ m.content }}\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}Answer: {% endif %}"
)
BASES = {
    "qwen": ("hf_tokenizers/qwen2.5", None),
    "qwen-marked": ("hf_tokenizers/qwen2.5", "qwen2_5_training.jinja"),
    "gpt2": ("hf_tokenizers/gpt2", PLAIN),
    "stories260K": ("stories260K-hf", PLAIN),
}
UNUSUAL = [
    chat("👩‍👩‍👧 多言語 مرحبا \u200b e\u0301 ﬁ ①", "שלום 🙂 done"),
    chat("tabs\t and  spaces \r\n", "  padded  \n"),
]


def _data() -> Path:
    return Path(os.environ["FT_REAL_DATA"])


def _gsm8k(count: int) -> list[Conversation]:
    lines = (_data() / "gsm8k/train.jsonl").read_text().splitlines()[:count]
    return [chat(row["question"], row["answer"]) for row in map(json.loads, lines)]


@cache
def _load(name: str) -> tuple[Path, ChatTokenizer, ChatTemplate]:
    folder, override = BASES[name]
    if override is not None and override.endswith(".jinja"):
        override = (TRL / override).read_text()
    tokenizer = ChatTokenizer.load(_data() / folder)
    return _data() / folder, tokenizer, load_template(_data() / folder, tokenizer, override)


def _encode(tokenizer: ChatTokenizer, template: ChatTemplate, messages: Conversation) -> Tokens:
    rendering = template.trace(messages, where="row 1")
    spans = learned_spans(
        rendering,
        tokenizer.template_tokens(rendering),
        learn="all_assistant",
        end_of_turn=template.probes.ends,
        marked=template.marked,
    )
    return tokenizer.encode(rendering, spans)


@pytest.mark.parametrize("name", corners(BASES, ("qwen-marked", "gpt2")))
def test_ids_and_masks_of_real_tokenizers_equal_those_of_transformers(name: str) -> None:
    folder, tokenizer, template = _load(name)
    theirs = AutoTokenizer.from_pretrained(folder)
    for messages in [*UNUSUAL, *_gsm8k(40)]:
        tokens = _encode(tokenizer, template, messages)
        expected = theirs.apply_chat_template(
            messages, chat_template=template.source, return_assistant_tokens_mask=template.marked
        )
        assert tokens.ids.tolist() == expected["input_ids"]
        if template.marked:
            # Qwen's marks take in the line's end that a prompt has.
            more = sum(expected["assistant_masks"]) - int(tokens.learned.sum())
            assert more == (name == "qwen-marked") * sum(message["role"] == "assistant" for message in messages)
            assert not (tokens.learned & ~np.array(expected["assistant_masks"], bool)).any()


@pytest.mark.parametrize("name", BASES)
def test_control_tokens_spelled_in_real_vocabularies_stay_text(name: str) -> None:
    _, tokenizer, template = _load(name)
    spelled = " ".join(sorted(tokenizer.named.values()))
    clean = _encode(tokenizer, template, chat("a question", "an answer"))
    tokens = _encode(tokenizer, template, chat(f"what is {spelled}?", f"it is {spelled}!"))
    control = list(tokenizer.control_ids)
    assert np.isin(tokens.ids, control).sum() == np.isin(clean.ids, control).sum()
    learned = tokenizer.tokenizer.decode(tokens.ids[tokens.learned].tolist(), skip_special_tokens=False)
    assert learned.strip().startswith(f"it is {spelled}!")
