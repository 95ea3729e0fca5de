"""A row as its form reads it: without what the policy ignores, and with columns joined that share a field."""

from collections.abc import Sequence
from typing import Any

from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.workers.datasets.forms.reasons import Reason, RowProblem
from ft_assets.workers.datasets.forms.texts import TYPES, is_blank


def as_mapped(row: dict[str, Any], settings: FormSettings) -> dict[str, Any]:
    """``row`` with one text for each field that ``settings`` join: its columns in their order, separated by blank
    lines, without blank ones.

    Raises RowProblem for a column that is not text, and for a row that has a field of that name beside the columns.
    """
    if settings.ignore:
        row = {name: item for name, item in row.items() if name not in settings.ignore}
    if not settings.joined:
        return row
    columns = {source for _, sources in settings.joined for source in sources}
    mapped = {name: item for name, item in row.items() if name not in columns}
    for field, sources in settings.joined:
        if field in mapped:
            problem = (
                "fields joins other columns into this field, and the row has it too: list it among them, or ignore it"
            )
            raise RowProblem(Reason.WRONG_TYPE, field, problem)
        there = [name for name in sources if row.get(name) is not None]
        if there:
            mapped[field] = _joined(row, there)
    return mapped


def _joined(row: dict[str, Any], columns: Sequence[str]) -> str:
    for name in columns:
        if not isinstance(row[name], str):
            problem = f"only texts can be joined, and this is {TYPES[type(row[name])]}"
            raise RowProblem(Reason.WRONG_TYPE, name, problem)
    return "\n\n".join(row[name] for name in columns if not is_blank(row[name]))
