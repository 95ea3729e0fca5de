"""Which turns of a document stand behind what they will be generated behind.

A template may show an earlier turn otherwise than it asks for it: Qwen3.5 asks behind ``<think>``, and shows an earlier
answer without. No document can then hold both what asks for the first answer and what asks for the second.
"""

from collections.abc import Callable, Sequence
from functools import cache

from ft_assets.workers.templates.rendering import Messages, NotRendered, Span

# Of a longer conversation, ever fewer prompts are rendered as long as all agree.
_SHORT = 8


def asked_turns(
    prompt_of: Callable[[Messages], str], messages: Messages, text: str, turns: Sequence[Span], places: Sequence[int]
) -> list[Span]:
    """Those of ``turns`` that ``text`` has behind exactly their prompt.

    A turn that nobody asked for, such as a greeting, needs none. One for which there is no prompt is left out.

    Args:
        prompt_of: renders messages with the generation prompt, or raises one of ``NotRendered``.
        turns: spans of the learned text, in order.
        places: the messages of the assistant that ``turns`` are of.
    """

    @cache
    def prompt(place: int) -> str | None:
        try:
            return prompt_of(messages[:place])
        except NotRendered:
            return None

    first = next((place for place, each in enumerate(messages) if each["role"] in ("user", "tool")), len(messages))

    def is_asked(number: int) -> bool:
        before = text[: turns[number][0]]
        if len(turns) == len(places):
            return places[number] < first or before == prompt(places[number])
        # Adjacent turns are one span, and a turn may be several.
        asked = [found for place in places if place > first and (found := prompt(place)) is not None]
        return before in asked or (places[0] < first and all(len(before) < len(found) for found in asked))

    numbers = range(len(turns))
    some = [number for number in numbers if number < _SHORT or not number & (number - 1) or number + 1 == len(turns)]
    if all(map(is_asked, some)):
        return list(turns)
    return [turns[number] for number in numbers if is_asked(number)]
