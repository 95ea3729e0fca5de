"""The data forms: one file each, and a line in ``FORMS``."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from ft_assets.settings.catalogue.form import Form, RowForm, Way
from ft_assets.settings.catalogue.forms.chat import CHAT
from ft_assets.settings.catalogue.forms.preference import PREFERENCE
from ft_assets.settings.catalogue.forms.text import TEXT
from ft_assets.settings.catalogue.forms.unpaired import UNPAIRED

FORMS: Mapping[str, Form] = MappingProxyType({form.name: form for form in (CHAT, PREFERENCE, UNPAIRED, TEXT)})
"""Every data form by its name."""

ROW_FORMS: Mapping[str, Way] = MappingProxyType(
    {name: Way(form, row) for form in FORMS.values() for name, row in form.rows.items()}
)
"""Every row form by its name in a dataset policy."""

GUESSED: Mapping[str, RowForm] = MappingProxyType(
    dict(
        sorted(
            ((name, way.row) for name, way in ROW_FORMS.items() if way.row.rank is not None),
            key=lambda each: each[1].rank or 0,
        )
    )
)
"""The row forms that ``auto`` recognises by their fields, in the order in which it tries them."""

RECOGNISED: Mapping[str, RowForm] = MappingProxyType(
    {name: way.row for name, way in ROW_FORMS.items() if way.row.recognised}
)
"""The row forms that ``auto`` recognises by their values."""

if TYPE_CHECKING:
    FormName = str
    RowFormName = str
else:
    FormName = Literal[tuple(FORMS)]
    RowFormName = Literal[("auto", *ROW_FORMS)]
