"""Rows with a prompt, one answer, and whether people liked it."""

from typing import Any

from ft_assets.workers.datasets.forms.convert import Converted, read_completion
from ft_assets.workers.datasets.forms.reasons import Reason, RowProblem
from ft_assets.workers.datasets.forms.texts import TextReader

_LABELS = {"true": True, "1": True, "false": False, "0": False}


def read_labelled(value: dict[str, Any], result: Converted, texts: TextReader) -> None:
    """A prompt and its completion; the completion is ``chosen`` if the label is true, else ``rejected``."""
    liked = _label(value["label"])
    read_completion(value, result, texts)
    turns = len(value["completion"]) if isinstance(value["completion"], list) else 1
    answer, result.messages = result.messages[-turns:], result.messages[:-turns]
    if liked:
        result.chosen = answer
    else:
        result.rejected = answer


def _label(value: Any) -> bool:
    text = str(int(value)) if isinstance(value, bool | int) else value
    label = _LABELS.get(text.strip().lower()) if isinstance(text, str) else None
    if label is None:
        raise RowProblem(Reason.WRONG_TYPE, "label", "this should be true or false, or 1 or 0")
    return label
