"""The token ids of a conversation that a model is to answer: the same in an evaluation and on a server."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ft_assets.workers.templates.rendering import Messages, Tools
from ft_assets.workers.tokenizers.chat_template import load_template
from ft_assets.workers.tokenizers.outputs import OutputReader
from ft_assets.workers.tokenizers.prompts import prompt_ids
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer


def question(text: str, system_prompt: str | None = None) -> list[dict[str, Any]]:
    """The conversation that asks ``text``."""
    before = [{"role": "system", "content": system_prompt}] if system_prompt is not None else []
    return [*before, {"role": "user", "content": text}]


class ChatPrompts:
    """Conversations up to the assistant's next turn.

    Args:
        folder: the base's folder.
        chat_template: Jinja text of the recipe; None for the base's own template.

    ``ends`` are the texts of the control tokens that may end a turn, ``end_ids`` their ids, ``call_end_ids`` those that
    may end one with tool calls; ``outputs`` reads what a model writes.
    """

    def __init__(self, folder: Path, tokenizer: ChatTokenizer, chat_template: str | None) -> None:
        self._tokenizer = tokenizer
        self.template = load_template(folder, tokenizer, chat_template)
        self.ends = self.template.probes.ends
        self.end_ids = self._ids(self.ends)
        self.outputs = OutputReader(tokenizer.tokenizer, self.template)

    @property
    def think_end(self) -> str:
        """What ends thoughts, lm-eval's ``think_end_token``; "" for a template without any."""
        probes = self.template.probes
        return probes.output.closes if probes.thinks else ""

    @property
    def call_end_ids(self) -> tuple[int, ...]:
        return self._ids(self.template.probes.called_ends)

    def _ids(self, texts: Iterable[str]) -> tuple[int, ...]:
        found = (self._tokenizer.tokenizer.token_to_id(text) for text in texts)
        return tuple(sorted(number for number in found if number is not None))

    def prompt(self, messages: Messages, where: str, tools: Tools = None) -> list[int]:
        """Token ids of what a server feeds the model before it answers. Raises BadData, naming ``where``."""
        return prompt_ids(self.template, self._tokenizer, messages, where=where, tools=tools)
