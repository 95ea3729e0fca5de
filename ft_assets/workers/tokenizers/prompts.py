"""The token ids of a conversation up to an answer: packs are held to them, evaluations ask and servers feed them."""

from ft_assets.workers.templates.rendering import Messages, Rendering, Tools
from ft_assets.workers.templates.template import ChatTemplate, strings
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadData


def prompt_ids(
    template: ChatTemplate, tokenizer: ChatTokenizer, messages: Messages, *, where: str, tools: Tools = None
) -> list[int]:
    """Token ids up to the assistant's next turn. Raises BadData, naming ``where``."""
    text = template.render(messages, where=where, tools=tools, add_generation_prompt=True)
    words = [word for part in (*messages, *(tools or ())) for word in strings(part)]
    quoted = []
    if any(template.control.search(word) for word in words):
        without = template.trace(messages, where=where, tools=tools, with_turns=False)
        if not text.startswith(without.text):
            raise BadData(
                "a message spells a control token, and the template's generation prompt moves it",
                where=where,
                remedy="Remove the control token's text from the row.",
            )
        quoted = without.quoted
    ids: list[int] = tokenizer.encode(Rendering(text=text, turns=[], quoted=quoted)).ids.tolist()
    return ids
