"""The part of a dataset policy that says how rows are read, as a job or a form of the console gives it."""

from collections.abc import Mapping
from typing import Any

from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_resources.errors import BadRecipe
from ft_resources.strict import nearest, parse_strict

SPELLING = ("form", "fields", "turns", "labels")
"""The mapping of columns and label values to the fields of a form."""
_SETTINGS = (*SPELLING, "on_bad_row", "max_dropped_share")


def reading_of(policy: DatasetPolicy) -> dict[str, Any]:
    """The part of ``policy``, as JSON; {} for a policy that leaves all of it to its defaults."""
    return policy.model_dump(mode="json", include={*_SETTINGS}, exclude_defaults=True)


def policy_of(rows: Mapping[str, Any], where: str = "rows") -> DatasetPolicy:
    """The policy with the part ``rows``. Raises BadRecipe for other settings, wrong values, and fields of no form."""
    for name in rows:
        if name not in _SETTINGS:
            raise BadRecipe(
                f"{name[:60]!r} does not say how rows are read; {nearest(name, [*_SETTINGS])}",
                where=where,
                remedy=f"Give {', '.join(_SETTINGS)}, as a dataset.yaml has them.",
            )
    policy = parse_strict(DatasetPolicy, dict(rows), where)
    try:
        FormSettings.of(policy)
    except BadRecipe as error:
        raise BadRecipe(error.what, where=where, remedy=error.remedy) from None
    return policy
