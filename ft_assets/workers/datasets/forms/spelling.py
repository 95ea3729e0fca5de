"""Turns and labels in an upload's own words, written as the forms spell them."""

from typing import Any

from ft_assets.settings.dataset.spelling import LabelSettings, TurnSettings
from ft_assets.workers.datasets.forms.reasons import Reason, RowProblem


def as_turns(value: Any, where: str, names: TurnSettings) -> Any:
    """``value`` with role and content in the turns of a list, or in one turn; anything else as it is.

    ``[{"speaker": "agent", "body": "Hi"}]`` becomes ``[{"role": "assistant", "content": "Hi"}]``. Raises RowProblem for
    a turn that has a field ``role`` or ``content`` beside the one that holds it.
    """
    if isinstance(value, list):
        return [as_turns(turn, f"{where}[{place}]", names) for place, turn in enumerate(value)]
    if not isinstance(value, dict) or names.role not in value:
        return value
    turn = {name: item for name, item in value.items() if name not in names.ignore}
    for name, source in (("role", names.role), ("content", names.content)):
        if source == name:
            continue
        if name in turn:
            problem = f"the turn has {name} and the field that turns.{name} maps: add {name} to turns.ignore"
            raise RowProblem(Reason.WRONG_TYPE, where, problem)
        if source in turn:
            turn[name] = turn.pop(source)
    if isinstance(turn["role"], str):
        turn["role"] = names.roles.get(turn["role"], turn["role"])
    return turn


def as_label(value: Any, words: LabelSettings) -> Any:
    """True or False where ``words`` say what ``value`` means; anything else as it is, and true or false itself."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return value
    said = words.says(value)
    return value if said is None else said
