"""The token ids of a conversation as a model is asked: the same for an evaluation and for a server."""

from pathlib import Path

from ft_assets.workers.templates.rendering import Messages, Rendering
from ft_assets.workers.templates.template import strings
from ft_assets.workers.tokenizers.chat_template import load_template
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadData


class ChatPrompts:
    """Conversations up to the assistant's next turn.

    Args:
        folder: the base's folder.
        chat_template: Jinja text of the recipe; None for the base's own template.

    ``ends`` are the texts of the control tokens that may end a turn.
    """

    def __init__(self, folder: Path, tokenizer: ChatTokenizer, chat_template: str | None) -> None:
        self._tokenizer = tokenizer
        self.template = load_template(folder, tokenizer, chat_template)
        self.ends = self.template.probes.ends

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
