"""The part of a dataset policy that says how rows are read, and the fields that each form has."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Self

from ft_assets.datasets.policy import DatasetPolicy
from ft_assets.recipes.strict import nearest
from ft_resources.errors import BadRecipe


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """A form of rows: the fields it needs, those it may have, and the kind of data it gives (one of FORMS)."""

    needs: tuple[str, ...]
    may_have: tuple[str, ...]
    kind: str


# In the order of recognition. Plain text comes last and is never guessed where fields of other forms are about.
FORM_FIELDS: Mapping[str, Form] = MappingProxyType(
    {
        "messages": Form(needs=("messages",), may_have=("tools", "functions"), kind="chat"),
        "sharegpt": Form(needs=("conversations",), may_have=("system", "tools"), kind="chat"),
        "preference": Form(needs=("chosen", "rejected"), may_have=("prompt", "system", "tools"), kind="preference"),
        "prompt/completion": Form(needs=("prompt", "completion"), may_have=("system", "tools"), kind="chat"),
        "alpaca": Form(needs=("instruction", "output"), may_have=("input", "system"), kind="chat"),
        "text": Form(needs=("text",), may_have=(), kind="text"),
    }
)
"""Name of a form (as in the policy) to its fields."""


@dataclass(frozen=True, kw_only=True)
class FormSettings:
    """How rows are read.

    Args:
        form: a key of FORM_FIELDS, or ``auto``.
        fields: pairs of a form's field and the upload's field that holds it, where their names differ.
        group_by: field whose value keeps rows together, None for none.
    """

    form: str = "auto"
    fields: tuple[tuple[str, str], ...] = ()
    group_by: str | None = None

    def __post_init__(self) -> None:
        forms = FORM_FIELDS.values() if self.form == "auto" else [FORM_FIELDS[self.form]]
        known = sorted({field for form in forms for field in (*form.needs, *form.may_have)} | {"kind"})
        for field, _ in self.fields:
            if field not in known:
                of = "any form" if self.form == "auto" else f"the form {self.form}"
                raise BadRecipe(
                    f"{field!r} is not a field of {of}; {nearest(field, known)}",
                    where="dataset.yaml: fields",
                    remedy="Map fields of the form (left) to fields of the upload (right), such as {prompt: question}.",
                )
        taken: dict[str, str] = {}
        for field, source in self.fields:
            if source in taken:
                raise BadRecipe(
                    f"both {taken[source]!r} and {field!r} are mapped to the upload's field {source!r}",
                    where="dataset.yaml: fields",
                    remedy="Map each field of the upload once.",
                )
            taken[source] = field
        for form in forms:
            names = {*form.needs, *form.may_have}
            for field, source in self.fields:
                if field in names and source in names - self.sources.keys() - {field}:
                    raise BadRecipe(
                        f"{field!r} is mapped to the upload's field {source!r}, which is read as {source!r} already",
                        where="dataset.yaml: fields",
                        remedy=f"Map {source!r} as well, to the upload's field that holds it.",
                    )

    @classmethod
    def of(cls, policy: DatasetPolicy) -> Self:
        """The settings in ``policy``. Raises BadRecipe for a mapping of fields that no form has."""
        return cls(form=policy.form, fields=tuple(sorted(policy.fields.items())), group_by=policy.split.group_by)

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """Field of a form to the name it has in the upload, for the fields whose names differ."""
        return dict(self.fields)

    def source(self, field: str) -> str:
        """Name in the upload of a form's ``field``."""
        return self.sources.get(field, field)
