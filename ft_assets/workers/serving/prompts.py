"""Prompts for an adapter, by its own chat template and tokenizer, as in its evaluation. Engines only know those of the
base."""

import json
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ft_assets.workers.base_models.contents import TEMPLATE, TOKENIZER_FILES
from ft_assets.workers.datasets.forms.reasons import RowProblem
from ft_assets.workers.datasets.forms.texts import TextReader
from ft_assets.workers.datasets.forms.tools import read_tools
from ft_assets.workers.datasets.forms.turns import read_turns, to_messages
from ft_assets.workers.evals.chat_prompts import ChatPrompts
from ft_assets.workers.templates.template import strings
from ft_assets.workers.tokenizers.chat_template import template_text
from ft_assets.workers.tokenizers.outputs import OutputStream
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.artifacts import Artifact
from ft_resources.canonical import digest
from ft_resources.errors import BadBase, BadData
from ft_resources.serving.errors import BadRequest, FarTooLong

_MESSAGES, _TOOLS = "messages", "tools"
# Characters per token; hardly any text has more.
_LETTERS = 16
_FILES = (*TOKENIZER_FILES, TEMPLATE, "config.json")


class Prompts:
    """Prompts for the adapter in ``folder``; or in a base's folder, with the recipe's ``chat_template``. Thread-safe.

    ``stop_token_ids`` end an answer to a conversation, besides the base's own end tokens.
    """

    def __init__(self, folder: Path, chat_template: str | None = None) -> None:
        self._tokenizer = ChatTokenizer.load(folder)
        # That of an adapter, exported with it, includes the recipe's settings.
        template = template_text(folder, chat_template)
        self._chat = ChatPrompts(folder, self._tokenizer, template) if template else None
        self.stop_token_ids = self._chat.end_ids if self._chat else ()

    @property
    def chats(self) -> bool:
        """Whether the adapter answers conversations; else it continues texts."""
        return self._chat is not None

    def ends(self, *, with_tools: bool) -> tuple[int, ...]:
        """``stop_token_ids``, and what ends an answer that calls tools."""
        return self._chat.call_end_ids if self._chat and with_tools else self.stop_token_ids

    def chat(
        self, messages: Sequence[dict[str, Any]], context: int | None = None, tools: Sequence[dict[str, Any]] = ()
    ) -> list[int]:
        """Token ids of a conversation up to the answer; its texts are cleaned like a dataset's. ``tools`` are
        definitions of functions, as OpenAI's API takes them.

        Raises BadRequest for messages and tools that cannot be read or that the template refuses or does not show, and
        FarTooLong for texts that are far longer than ``context`` tokens.
        """
        template = self._chatting()
        if context is not None and len(messages) > context:
            raise FarTooLong(context, _MESSAGES)
        try:
            turns = read_turns(list(messages), _MESSAGES, _Said(messages)).turns
            known = json.loads(read_tools(list(tools), _TOOLS) or "[]")
        except RowProblem as error:
            raise BadRequest(error.problem, where=error.field) from None
        asked = to_messages([turn._asdict() for turn in turns])
        self._require_room((word for part in (*asked, *known) for word in strings(part)), context, _MESSAGES)
        try:
            ids = template.prompt(asked, _MESSAGES, known or None)
            if known and ids == template.prompt(asked, _MESSAGES):
                remedy = "Ask without them."
                raise BadRequest("the chat template of this model shows it no tools", where=_TOOLS, remedy=remedy)
            return ids
        except (BadData, BadBase) as error:
            raise BadRequest(
                error.what, where=_MESSAGES, remedy="Send a conversation such as the training's."
            ) from None

    def asked(
        self, messages: Sequence[dict[str, Any]], context: int | None = None, tools: Sequence[dict[str, Any]] = ()
    ) -> list[int]:
        """As ``chat``; without a chat template the last message is continued, and nothing else can be given."""
        if self.chats:
            return self.chat(messages, context, tools)
        for given, what in ((tools, "tools"), (messages[0]["role"] == "system", "system prompt")):
            if given:
                raise BadRequest(
                    f"this model has no chat template: it continues texts, and can be given no {what}",
                    where=what,
                    remedy="Ask without.",
                )
        return self.text(str(messages[-1].get("content") or ""), context)

    def output(self, prompt: Sequence[int]) -> OutputStream:
        """Takes the answer to a conversation's ``prompt`` apart as it is written. Raises BadRequest as ``chat``."""
        return self._chatting().outputs.stream(prompt)

    def text(self, text: str, context: int | None = None) -> list[int]:
        """Token ids of a text to be continued, with the tokens that the tokenizer puts before every text. Raises
        FarTooLong as ``chat`` does."""
        self._require_room([text], context, "prompt")
        ids: list[int] = self._tokenizer.tokenizer.encode(text).ids
        return ids

    def _chatting(self) -> ChatPrompts:
        if self._chat is None:
            raise BadRequest(
                "this model has no chat template: it continues texts",
                where="model",
                remedy="Ask for /v1/completions.",
            )
        return self._chat

    def _require_room(self, texts: Iterable[str], context: int | None, where: str) -> None:
        """Raise FarTooLong if the texts are far longer than ``context`` tokens. Only the part that may fit is
        tokenized, as a whole megabyte would take a second."""
        if context is None:
            return
        most = context * _LETTERS
        begin, length = [], 0
        for text in texts:
            begin.append(text[: most - length])
            length += len(begin[-1])
            if length == most:
                break
        else:
            return
        if len(self._tokenizer.tokenizer.encode("".join(begin), add_special_tokens=False).ids) > context:
            raise FarTooLong(context, where)

    def word(self, number: int) -> str:
        """A token as text; an incomplete character is U+FFFD."""
        text: str = self._tokenizer.tokenizer.decode([number], skip_special_tokens=False)
        return text


class _Said(TextReader):
    """Reads a conversation's texts. What a model said in it may be nothing, since models do end at once."""

    def __init__(self, messages: Sequence[dict[str, Any]]) -> None:
        super().__init__()
        said = (number for number, each in enumerate(messages) if each.get("role") == "assistant")
        self._fields = {f"{_MESSAGES}[{number}].{name}" for number in said for name in ("content", "value")}

    def text(self, value: Any, field: str) -> str:
        return self.maybe_empty(value, field) if field in self._fields else super().text(value, field)


class PromptCache:
    """The prompts of at most ``most`` different pairs of a tokenizer and a template, the most recently used.

    The key is their content, so adapters of one base, and of several tenants with one template, share them.
    """

    def __init__(self, most: int = 16) -> None:
        self._most = most
        self._known: OrderedDict[str, Prompts] = OrderedDict()
        self._lock = threading.Lock()
        self._loading: dict[str, threading.Lock] = {}

    def of(self, artifact: Artifact) -> Prompts:
        """The prompts of an adapter; its files are verified. Raises CorruptArtifact, BadBase and StoreUnavailable."""
        names = [name for name in _FILES if name in artifact.manifest.files]
        key = digest([[name, artifact.manifest.files[name].sha256] for name in names])
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
            # Loading a large vocabulary takes a second: it happens once, and outside the cache's lock.
            loading = self._loading.setdefault(key, threading.Lock())
        with loading:
            with self._lock:
                if key in self._known:
                    return self._known[key]
            try:
                made = _load(artifact, names)
                with self._lock:
                    self._known[key] = made
                    while len(self._known) > self._most:
                        self._known.popitem(last=False)
            finally:
                with self._lock:
                    self._loading.pop(key, None)
        return made


def _load(artifact: Artifact, names: Sequence[str]) -> Prompts:
    with tempfile.TemporaryDirectory(prefix="ft-prompts-") as scratch:
        for name in names:
            (Path(scratch) / name).write_bytes(artifact.read(name))
        return Prompts(Path(scratch))
