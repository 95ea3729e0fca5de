"""Which characters of a rendering the model learns: the assistant's turns, each with its end-of-turn token."""

import bisect
import re
from collections.abc import Sequence
from typing import Literal

from ft_assets.packs.templates.template import Rendering, Span

Learn = Literal["all_assistant", "last_assistant"]


def learned_spans(
    rendering: Rendering,
    template_tokens: Sequence[Span],
    *,
    learn: Learn,
    end_of_turn: frozenset[str],
    marked: bool,
) -> list[Span]:
    """The spans of ``rendering.text`` to learn, in order.

    Args:
        template_tokens: where the template, and no message, wrote a control token, in order.
        learn: every assistant turn, or only the last.
        end_of_turn: texts of the control tokens that may end a turn.
        marked: whether the template marked the turns itself. Its marks are kept, and only extended by an
            end-of-turn token that directly follows; turns derived from prefixes end with their last control token.

    For ``<|user|>hi<|end|><|assistant|>hello<|end|>\\n`` and the turn ``hello`` this gives ``hello<|end|>``.
    """
    turns = rendering.turns if learn == "all_assistant" else rendering.turns[-1:]
    return [_whole_turn(rendering.text, turn, template_tokens, end_of_turn, marked) for turn in turns]


def _whole_turn(text: str, turn: Span, tokens: Sequence[Span], end_of_turn: frozenset[str], marked: bool) -> Span:
    start, end = turn
    behind = bisect.bisect_right(tokens, end, key=lambda token: token[1])
    last = tokens[behind - 1] if behind and tokens[behind - 1][0] >= start else None
    if last is not None and re.fullmatch(r"\s*", text[last[1] : end]):
        return (start, end if marked else last[1])
    following = tokens[behind] if behind < len(tokens) else None
    if following is not None and following[0] == end and text[slice(*following)] in end_of_turn:
        return (start, following[1])
    return turn
