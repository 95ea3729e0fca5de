"""The part of a dataset policy that says how rows are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from ft_assets.settings.catalogue.form import RowForm
from ft_assets.settings.catalogue.forms import GUESSED, RECOGNISED, ROW_FORMS
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.settings.dataset.spelling import LabelSettings, TurnSettings
from ft_resources.errors import BadRecipe
from ft_resources.strict import nearest

KIND, WEIGHT = "kind", "weight"
"""Fields beside those of the form. The kind is read wherever a row has it; the weight only where a policy maps it,
as rows with such a field were read without it before."""


@dataclass(frozen=True, kw_only=True)
class FormSettings:
    """How rows are read.

    Args:
        form: a key of ROW_FORMS, or ``auto``.
        fields: pairs of a form's field and the upload's field that holds it, if their names differ.
        joined: pairs of a form's field and the upload's fields whose texts make it.
        group_by: field whose value keeps rows together, or None.
        ignore: the upload's fields that are read as if they were not there.
        turns: what turns call their fields and roles, if not as forms do.
        labels: what labels say, if not true and false, or 1 and 0.
    """

    form: str = "auto"
    fields: tuple[tuple[str, str], ...] = ()
    joined: tuple[tuple[str, tuple[str, ...]], ...] = ()
    group_by: str | None = None
    ignore: tuple[str, ...] = ()
    turns: TurnSettings | None = None
    labels: LabelSettings | None = None

    def __post_init__(self) -> None:
        forms = self.forms.values()
        weighed = self.form == "auto" or ROW_FORMS[self.form].form.weighed
        beside = {KIND, WEIGHT} if weighed else {KIND}
        known = sorted({field for form in forms for field in (*form.needs, *form.may_have)} | beside)
        for field, _ in self._mapped:
            if field not in known:
                of = "any form" if self.form == "auto" else f"the form {self.form}"
                raise BadRecipe(
                    f"{field!r} is not a field of {of}; {nearest(field, known)}",
                    where="dataset.yaml: fields",
                    remedy="Map fields of the form (left) to fields of the upload (right), such as {prompt: question}.",
                )
        taken: dict[str, str] = {}
        for field, source in self._mapped:
            if source in taken:
                raise BadRecipe(
                    f"both {taken[source]!r} and {field!r} are mapped to the upload's field {source!r}",
                    where="dataset.yaml: fields",
                    remedy="Map each field of the upload once.",
                )
            taken[source] = field
        used = {*taken, *([self.group_by] if self.group_by else [])} & {*self.ignore}
        if used:
            raise BadRecipe(
                f"the upload's field {min(used)!r} is both ignored and used",
                where="dataset.yaml: fields.ignore",
                remedy="Remove it from ignore, or remove its mapping or grouping.",
            )
        mapped = {field for field, _ in self._mapped}
        for form in forms:
            names = {*form.needs, *form.may_have}
            for field, source in self._mapped:
                if field in names and source in names - mapped:
                    raise BadRecipe(
                        f"{field!r} is mapped to the upload's field {source!r}, which is already read as {source!r}",
                        where="dataset.yaml: fields",
                        remedy=f"Map {source!r} as well, to the upload's field that holds its values.",
                    )

    @classmethod
    def of(cls, policy: DatasetPolicy) -> Self:
        """The settings in ``policy``. Raises BadRecipe if it maps fields that no form has."""
        mapped = {field: source for field, source in policy.fields.items() if isinstance(source, str)}
        joined = {field: sources for field, sources in policy.fields.items() if not isinstance(sources, str)}
        joined.pop("ignore", None)
        return cls(
            form=policy.form,
            fields=tuple(sorted(mapped.items())),
            joined=tuple(sorted(joined.items())),
            group_by=policy.split.group_by,
            ignore=tuple(policy.fields.get("ignore", ())),
            turns=policy.turns,
            labels=policy.labels,
        )

    @property
    def forms(self) -> Mapping[str, RowForm]:
        """The candidate row forms, in the order in which they are tried."""
        return GUESSED if self.form == "auto" else {self.form: ROW_FORMS[self.form].row}

    @property
    def _mapped(self) -> list[tuple[str, str]]:
        """Pairs of a form's field and an upload's field that it is mapped to."""
        return [*self.fields, *((field, source) for field, sources in self.joined for source in sources)]

    @property
    def reads_kind(self) -> bool:
        """Whether rows' kinds are read. An upload's ``kind`` that is mapped to another field is that field only."""
        return KIND in self.sources or all(source != KIND for _, source in self._mapped)

    @property
    def weight(self) -> str | None:
        """The upload's field that holds each row's weight; None if rows have none."""
        return self.sources.get(WEIGHT)

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """Maps a form's field to its name in the upload, for fields whose names differ."""
        return dict(self.fields)

    @cached_property
    def recognisable(self) -> frozenset[str]:
        """Names in the upload of all fields by which a form is recognised; a row with none of them has no form."""
        forms = (*GUESSED.values(), *RECOGNISED.values())
        return frozenset(self.source(name) for form in forms for name in form.needs)

    @cached_property
    def guessed(self) -> tuple[tuple[str, str], ...]:
        """Pairs of a field by which a form is guessed and its name in the upload."""
        return tuple((name, self.source(name)) for name in {name for form in GUESSED.values() for name in form.needs})

    def source(self, field: str) -> str:
        """Name in the upload of a form's ``field``."""
        return self.sources.get(field, field)
