"""Texts nested in lists or objects that no form reads."""

from collections.abc import Iterator, Sequence
from typing import Any

from ft_assets.workers.datasets.forms.field_names import names_an_answer
from ft_assets.workers.datasets.forms.guess import Guess
from ft_assets.workers.datasets.forms.reasons import NAME

_MAX_NAMES = 6


def nested_advice(rows: Sequence[dict[str, Any]], guess: Guess | None) -> str:
    """What to do about rows that hold their answers in a list or an object; "" if they do not, or ``guess`` reads them.

    SQuAD's ``{"question": …, "answers": {"text": […]}}`` is such a row: a guess from its other fields would teach
    something else.
    """
    read = {*guess.columns} if guess else set()
    if any(map(names_an_answer, read)):
        return ""
    for name in dict.fromkeys(name for row in rows for name in row if NAME.fullmatch(name) and name not in read):
        inner = [tuple(_texts_in(row.get(name))) for row in rows]
        if 2 * sum(map(bool, inner)) <= len(rows):
            continue
        names = [each for each in dict.fromkeys(each for names in inner for each in names) if NAME.fullmatch(each)]
        if guess is None or any(map(names_an_answer, [name, *names])):
            held = f" ({', '.join(names[:_MAX_NAMES])})" if names else ""
            return (
                f"`{name}` holds texts{held} inside a list or an object, and only top-level fields are read. "
                'Write rows such as {"prompt": …, "completion": …}, and add that file.'
            )
    return ""


def _texts_in(value: Any) -> Iterator[str]:
    """The names of the texts in an object, or in a list of objects."""
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, dict):
            yield from (name for name, text in each.items() if _is_text(text))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and any(isinstance(each, str) for each in value))
