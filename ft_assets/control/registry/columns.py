"""Columns of an upload that fit no form: their names, and a guess at how to read them."""

from collections.abc import Sequence
from typing import Any

from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.workers.datasets.forms.guess import Guess
from ft_assets.workers.datasets.forms.guesses import guess_columns, named_columns
from ft_assets.workers.datasets.forms.nested import nested_advice
from ft_assets.workers.datasets.forms.reasons import NAME
from ft_resources.errors import BadData

_SHOWN = 20


class UnknownColumns(BadData):
    """Rows whose columns fit no form; ``guess`` reads them, None if no guess does."""

    def __init__(self, error: BadData, remedy: str, guess: Guess | None) -> None:
        self.guess = guess
        super().__init__(error.what, where=error.where, remedy=remedy)


def unknown_columns(error: BadData, rows: Sequence[dict[str, Any]], form: FormSettings, *, unfit: bool) -> BadData:
    """``error`` of ``rows`` with a remedy that maps their columns, if there is one; ``unfit``: whether their fields fit
    no form, or only turns and labels are spelt as no form has them."""
    guess = guess_columns(rows, form)
    if nested := nested_advice(rows, guess):
        return UnknownColumns(error, nested, None)
    columns = named_columns(rows)
    if guess is None:
        if not columns or not unfit:
            return error
        remedy = (
            f"The columns are {_listed(columns)}. Map them in dataset.yaml, such as fields: "
            "{prompt: …, completion: …}, and add the file with `--policy dataset.yaml`."
        )
        return UnknownColumns(error, remedy, None)
    instead = ", in place of its form and fields" if form.form != "auto" or form.fields or form.joined else ""
    # Of fields in some rows only, the name may be the row's text.
    lost = [
        ("", [name for name in columns if name in guess.unused]),
        (" of the turns", [name for name in guess.turns.ignore if NAME.fullmatch(name)] if guess.turns else []),
    ]
    left = "".join(f"\nThese fields{of} would not be used: {_listed(names)}." for of, names in lost if names)
    if guess.unread:
        left += f"\nOf {len(rows)} such rows, {guess.unread} still cannot be read."
    remedy = (
        f"The columns are {_listed(columns)}. If this is what they hold, put these lines into dataset.yaml{instead}, "
        f"and add the file with `--policy dataset.yaml`:\n{guess.lines}{left}"
    )
    return UnknownColumns(error, remedy, guess)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
