"""Chat templates of real models as TRL ships them, and a tokenizer that knows their control tokens."""

import datetime as dt
import importlib.util
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer
from transformers.utils import chat_template_utils

from ft_assets.workers.packs.documents.conversations import Conversations, Shape
from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.templates.tracing import Learn, Tracer
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from tests.fake_base import make_fake_base
from tests.workers.packs.conftest import Conversation

FOLDER = Path(str(importlib.util.find_spec("trl").origin)).parent / "chat_templates"  # type: ignore[union-attr]
# Their messages hold lists of images and text, which datasets here do not have.
PICTURES = ("llava_next", "idefics3", "smolvlm")
NAMES = sorted(path.stem for path in FOLDER.glob("*.jinja") if not path.stem.startswith(PICTURES))
CONTROL = [
    *("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    *("<|begin_of_text|>", "<start_of_turn>", "<end_of_turn>", "<|turn>", "<turn|>", "<|start|>", "<|message|>"),
    *("<|channel|>", "<|return|>", "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<s>", "</s>", "<bos>"),
]


def source(name: str) -> str:
    return (FOLDER / f"{name}.jinja").read_text(encoding="utf-8")


def make_tokenizer(folder: Path) -> ChatTokenizer:
    """A byte-level tokenizer with the control tokens of the templates."""
    base = make_fake_base(folder / "base")
    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in CONTROL])
    return ChatTokenizer(tokenizer, {"bos_token": "<s>", "eos_token": "<|im_end|>", "pad_token": "<|pad|>"})


def compiled(text: str, tokenizer: ChatTokenizer) -> ChatTemplate:
    return ChatTemplate(text, name="the template", variables=tokenizer.named, control=tokenizer.control)


def tracer_of(template: ChatTemplate, tokenizer: ChatTokenizer, learn: Learn = "all_assistant") -> Tracer:
    """Labels conversations by ``template`` alone; see ``Tracer`` for what else it takes."""
    return Tracer(
        template=template,
        variant=None,
        controls=tokenizer.template_tokens,
        learn=learn,
        end_of_turn=template.probes.ends,
    )


def as_batch(chats: list[Conversation], prompt: int = 0) -> Conversations:
    return Conversations(
        shapes=[Shape(tuple(turn["role"] for turn in chat), prompt) for chat in chats],
        contents=[[turn["content"] for turn in chat] for chat in chats],
    )


@pytest.fixture
def same_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers prints today's date; here it is the one that packs print."""

    class Then(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:
            return dt.datetime(2024, 7, 26)

    monkeypatch.setattr(chat_template_utils, "datetime", Then)
