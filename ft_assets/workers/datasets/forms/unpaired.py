"""Rows with one answer, and whether people liked it."""

from typing import Any

from ft_assets.settings.dataset.spelling import folded
from ft_assets.workers.datasets.forms.convert import Converted, read_alpaca, read_anthropic, read_halves
from ft_assets.workers.datasets.forms.reasons import NAME, Reason, RowProblem
from ft_assets.workers.datasets.forms.texts import TextReader
from ft_assets.workers.datasets.forms.tools import read_tools
from ft_assets.workers.datasets.forms.turns import Turn

_LABELS = {"true": True, "1": True, "false": False, "0": False}


def read_labelled(value: dict[str, Any], result: Converted, texts: TextReader) -> None:
    """A prompt and its completion; the completion is ``chosen`` if the label is true, else ``rejected``."""
    liked = _label(value)
    before, after = read_halves(value, texts)
    result.tools = read_tools(value.get("tools"), "tools")
    _place(before, after, result, liked=liked)


def read_labelled_messages(value: dict[str, Any], result: Converted, texts: TextReader) -> None:
    """A conversation; its last turn is what people liked or not."""
    liked = _label(value)
    read_anthropic(value, result, texts)
    _place(result.messages[:-1], result.messages[-1:], result, liked=liked)


def read_labelled_alpaca(value: dict[str, Any], result: Converted, texts: TextReader) -> None:
    """Alpaca's instruction, input and output; the output is what people liked or not."""
    liked = _label(value)
    read_alpaca(value, result, texts)
    _place(result.messages[:-1], result.messages[-1:], result, liked=liked)


def _place(before: list[Turn], after: list[Turn], result: Converted, *, liked: bool) -> None:
    result.messages = before
    if liked:
        result.chosen = after
    else:
        result.rejected = after


def _label(value: dict[str, Any]) -> bool:
    label = liked(value["label"])
    if label is None:
        # A short word may be shown; anything else could be the row's text.
        said = value["label"]
        short = isinstance(said, int) or (isinstance(said, str) and NAME.fullmatch(said))
        is_now = f", not {said!r}" if short else ""
        raise RowProblem(Reason.WRONG_TYPE, "label", f"this should be true or false, or 1 or 0{is_now}")
    return label


def liked(value: Any) -> bool | None:
    """What a label says; None if it is not one of true and false, or 1 and 0, which may be texts."""
    return _LABELS.get(folded(value)) if isinstance(value, str | int | float) else None
