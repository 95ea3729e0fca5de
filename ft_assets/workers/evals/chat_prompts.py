"""The token ids of a conversation that a model is to answer: the same in an evaluation and on a server."""

from pathlib import Path
from typing import Any

from ft_assets.workers.templates.rendering import Messages, Rendering
from ft_assets.workers.templates.template import strings
from ft_assets.workers.tokenizers.chat_template import load_template
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadData


def question(text: str, system_prompt: str | None = None) -> list[dict[str, Any]]:
    """The conversation that asks ``text``."""
    before = [{"role": "system", "content": system_prompt}] if system_prompt is not None else []
    return [*before, {"role": "user", "content": text}]


class ChatPrompts:
    """Conversations up to the assistant's next turn.

    Args:
        folder: the base's folder.
        chat_template: Jinja text of the recipe; None for the base's own template.

    ``ends`` are the texts of the control tokens that may end a turn, ``end_ids`` their ids.
    """

    def __init__(self, folder: Path, tokenizer: ChatTokenizer, chat_template: str | None) -> None:
        self._tokenizer = tokenizer
        self.template = load_template(folder, tokenizer, chat_template)
        self.ends = self.template.probes.ends
        found = (tokenizer.tokenizer.token_to_id(text) for text in self.ends)
        self.end_ids = tuple(sorted(number for number in found if number is not None))

    def prompt(self, messages: Messages, where: str) -> list[int]:
        """Token ids of what a server feeds the model before it answers. Raises BadData, naming ``where``."""
        ids: list[int] = self._tokenizer.encode(self._rendered(messages, where)).ids.tolist()
        return ids

    def _rendered(self, messages: Messages, where: str) -> Rendering:
        text = self.template.render(messages, where=where, add_generation_prompt=True)
        words = [word for message in messages for word in strings(message)]
        if not any(self.template.control.search(word) for word in words):
            return Rendering(text=text, turns=[], quoted=[])
        without = self.template.trace(messages, where=where)
        if not text.startswith(without.text):
            raise BadData(
                "a message spells a control token, and the template's generation prompt moves it",
                where=where,
                remedy="Remove the control token's text from the row.",
            )
        return Rendering(text=text, turns=[], quoted=without.quoted)
