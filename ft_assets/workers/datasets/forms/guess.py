"""Trying out a guess: whether a policy reads rows that the present one cannot, or uses a field that it does not."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ft_assets.settings.catalogue.forms import ROW_FORMS
from ft_assets.settings.dataset.forms import KIND, WEIGHT, FormSettings
from ft_assets.settings.dataset.spelling import LabelSettings, TurnSettings
from ft_assets.workers.datasets.forms.convert import Converted, convert
from ft_assets.workers.datasets.forms.reasons import RowProblem
from ft_resources.errors import BadRecipe

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_RESERVED = ("null", "true", "false", "yes", "no", "on", "off")


@dataclass(frozen=True, kw_only=True, slots=True)
class Guess:
    """The part of a dataset policy that says how rows are read.

    Args:
        unused: fields of the rows that it was tried on that it does not use.
        unread: how many of these rows it does not read.
        kind: the data form of the others.
    """

    form: str
    fields: Mapping[str, str | tuple[str, ...]]
    ignore: tuple[str, ...] = ()
    turns: TurnSettings | None = None
    labels: LabelSettings | None = None
    unused: tuple[str, ...] = ()
    unread: int = 0
    kind: str = ""

    @property
    def columns(self) -> list[str]:
        """The upload's fields that are mapped."""
        each = [(source,) if isinstance(source, str) else source for source in self.fields.values()]
        return [name for sources in each for name in sources]

    @property
    def lines(self) -> str:
        """The lines of a ``dataset.yaml``."""
        pairs = [f"{field}: {_flow(source)}" for field, source in self.fields.items()]
        if self.ignore:
            pairs.append(f"ignore: {_flow(self.ignore)}")
        form = [] if self.form == "auto" else [f"form: {self.form}"]
        beside = {"turns": self.turns, "labels": self.labels}
        spelt = [f"{name}: {_flow(each.model_dump(exclude_defaults=True))}" for name, each in beside.items() if each]
        return "\n".join([*form, *([f"fields: {{{', '.join(pairs)}}}"] if pairs else []), *spelt])


def _flow(value: Any) -> str:
    """``value`` in YAML on one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_word(name)}: {_flow(each)}' for name, each in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_flow, value))}]"
    return _word(value) if isinstance(value, str) else json.dumps(value)


def _word(text: str) -> str:
    plain = _PLAIN.fullmatch(text) and text.lower() not in _RESERVED
    return text if plain else json.dumps(text, ensure_ascii=False)


def try_out(
    rows: Sequence[dict[str, Any]],
    form: str,
    fields: Mapping[str, str | tuple[str, ...]],
    settings: FormSettings,
    *,
    uses: str = "",
    losing: Sequence[str] = (),
    turns: TurnSettings | None = None,
    labels: LabelSettings | None = None,
) -> Guess | None:
    """The policy with ``form`` and ``fields`` added to ``settings``; None if it does not read most of ``rows``.

    ``turns`` and ``labels`` say how the rows spell them, if not as ``settings`` say.

    ``uses`` names a field that it must read, and it may leave out only ``losing`` of what ``settings`` reads.
    """
    row_form = ROW_FORMS[form].row
    known = {*row_form.needs, *row_form.may_have, KIND, WEIGHT}
    given: list[tuple[str, str | tuple[str, ...]]] = [*settings.fields, *settings.joined]
    kept = {**{field: source for field, source in given if field in known}, **fields}
    kept = {field: source for field, source in kept.items() if field != source or field == WEIGHT}
    before = _read(rows, settings) if uses else []
    turns, labels = turns or settings.turns, labels or settings.labels
    for name in ("auto", form):
        try:
            tried = FormSettings(
                form=name,
                fields=tuple((field, source) for field, source in kept.items() if isinstance(source, str)),
                joined=tuple((field, sources) for field, sources in kept.items() if not isinstance(sources, str)),
                ignore=settings.ignore,
                group_by=settings.group_by,
                turns=turns,
                labels=labels,
            )
        except BadRecipe:
            continue
        read = _read(rows, tried)
        fits = [each is not None and each.form == form for each in read]
        if sum(fits) * 2 <= len(rows) or (name == "auto" and not all(fits)):
            continue
        if uses and any(
            new and (uses in new.unused or {*new.unused} - {*losing} - {*(old.unused if old else ())})
            for old, new in zip(before, read, strict=True)
        ):
            continue
        unused = tuple(dict.fromkeys(field for each in read if each is not None for field in each.unused))
        return Guess(
            form=name,
            fields=kept,
            ignore=settings.ignore,
            turns=turns,
            labels=labels,
            unused=unused,
            unread=len(rows) - sum(fits),
            kind=ROW_FORMS[form].form.name,
        )
    return None


def _read(rows: Iterable[dict[str, Any]], settings: FormSettings) -> list[Converted | None]:
    found: list[Converted | None] = []
    for row in rows:
        try:
            found.append(convert(row, settings))
        except RowProblem:
            found.append(None)
    return found
