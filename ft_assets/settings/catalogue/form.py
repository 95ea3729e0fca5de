"""The definition of a data form: how its rows are read, and how training uses them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ft_assets.settings.catalogue.refusal import Refusal


@dataclass(frozen=True, kw_only=True, slots=True)
class RowForm:
    """One way to write rows of a form.

    Args:
        needs: fields that every row must have.
        may_have: optional fields.
        reader: ``module:function`` that reads the fields into an example (``forms.convert.Converted``).
        rank: place in the order in which ``auto`` tries the row forms; None: not recognised by its fields alone.
        recognised: ``module:function`` that says, from a function that gives the row's values by field, whether
            ``auto`` may read a row in this form; "" if only a policy can name it. It says yes only to rows that could
            not be read at all without this form.
        instead_of: the row form that a recognised row's fields fit as well; "" if they fit none.
    """

    needs: tuple[str, ...]
    reader: str
    may_have: tuple[str, ...] = ()
    rank: int | None = None
    recognised: str = ""
    instead_of: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """A data form: what one example consists of.

    Args:
        name: its name in datasets' facts, packs and reports.
        rows: its row forms, by their name in a dataset policy.
        columns: the columns of a curated split that hold an example.
        answers: how many of ``chosen`` and ``rejected`` an example has.
        documents: number of sequences per example in a token pack; several sequences share a window of their own.
        completed_by: ``module:function`` that completes a batch of a split's rows with everything that their
            documents need; "" if the rows are complete.
        plain: whether an example is a text without turns, so without a chat template or a prompt.
        weighed: whether its rows may have a weight (``settings.dataset.forms.WEIGHT``).
        report_params: params of an ``eval_report`` on such data, beyond those of every report.
        task_gain: the gate ``task_gain`` of recipes that name no metric; empty for the usual one.
        refusals: settings that are invalid with such data.
    """

    name: str
    rows: Mapping[str, RowForm]
    columns: tuple[str, ...]
    answers: int = 0
    documents: int = 1
    completed_by: str = ""
    plain: bool = False
    weighed: bool = True
    report_params: Mapping[str, Any] = field(default_factory=dict)
    task_gain: Mapping[str, Any] = field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()

    @property
    def own_windows(self) -> bool:
        """Whether an example's documents have a window of their own, in which each may have a full window's length."""
        return self.documents > 1


class Way(NamedTuple):
    """A row form and the data form of its examples."""

    form: Form
    row: RowForm
