"""Chat templates of real models as TRL ships them, and a tokenizer that knows their control tokens."""

import importlib.util
from functools import lru_cache
from pathlib import Path

from tokenizers import AddedToken, Tokenizer

from ft_assets.workers.packs.documents.conversations import Conversations, Shape
from ft_assets.workers.templates.rendering import Messages, Tools
from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.templates.tracing import Learn, Tracer
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from tests.fake_base import make_fake_base
from tests.workers.packs.conftest import Conversation

FOLDER = Path(str(importlib.util.find_spec("trl").origin)).parent / "chat_templates"  # type: ignore[union-attr]
# Their messages hold lists of images and text, which datasets here do not have.
PICTURES = ("llava_next", "idefics3", "smolvlm")
NAMES = sorted(path.stem for path in FOLDER.glob("*.jinja") if not path.stem.startswith(PICTURES))
# What each does that the others of them do not: `make test` tries these, and `make test-long` all.
CORNERS = {
    "llama3_1": "begins with a token of its own and prints a date; tools stand in the first question; one call a turn",
    "qwen2_5": "writes a system turn where there is none, and tools into it",
    "qwen2_5_training": "the same with marks",
    "qwen3": "drops earlier thoughts, and writes empty ones before the last answer",
    "qwen3_5_think": "its prompt opens thoughts",
    "qwen3_5_nothink_training": "its prompt opens and closes thoughts; with marks",
    "deepseekv3": "leaves thoughts out; the marks of its variant take in the header",
    "deepseek_r1_distill_training": "knows no tools; with marks",
    "gemma": "refuses system turns, and roles that do not alternate",
    "gemma4": "moves what is said beside a call behind its result",
    "diffusion_gemma": "opens a turn again behind a result",
    "gptoss": "has channels, and another end of earlier turns than of the last",
    "gptoss_training": "the same with marks",
    "glm4moe": "ends no last answer",
    "phi3": "shows neither tools nor calls",
    "cohere_training": "refuses two questions in a row and results of tools; with marks",
    "lfm2": "shows tools and not their calls",
    "muse_glimmer_training": "its marks begin before the header",
}
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


@lru_cache(maxsize=256)
def compiled(text: str, tokenizer: ChatTokenizer) -> ChatTemplate:
    """The template, the same each time: compiling one takes as long as ten renderings."""
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


def learned(tracer: Tracer, messages: Messages, tools: Tools = None, prompt: int = 0) -> list[str]:
    """The learned parts of a conversation, turn by turn."""
    traced = tracer.trace(messages, where="row 1", tools=tools, prompt=prompt)
    return [traced.rendering.text[start:end] for start, end in traced.learned]


def as_batch(chats: list[Conversation], prompt: int = 0) -> Conversations:
    return Conversations(
        shapes=[Shape(tuple(turn["role"] for turn in chat), prompt) for chat in chats],
        contents=[[turn["content"] for turn in chat] for chat in chats],
    )
