"""How a difference between a folder and the platform is shown: one line, followed by the settings that change."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ft_resources.dotted import leaves
from ft_resources.errors import BadRecipe
from ft_resources.kubernetes.applying import Difference
from ft_resources.kubernetes.objects import name_of
from ft_resources.strict import parse_yaml

SETTINGS = ("kubernetes.yaml", "tenants.yaml", "models.yaml", "servers.yaml")
"""Files of a folder that pods mount."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderStep:
    """One difference: ``what`` differs, such as ``Namespace ft-acme`` or ``recipe first.v1``, and in ``details`` which
    settings change, as ``path: before -> after``."""

    verb: Literal["create", "change", "delete"]
    what: str
    details: tuple[str, ...] = ()


def step_of(difference: Difference) -> FolderStep:
    """Display name of a difference on the cluster."""
    details = tuple(line for field in difference.fields for line in _lines(*field))
    return FolderStep(verb=difference.verb, what=name_of(difference.object), details=details)


def _lines(path: str, before: object, after: object) -> Iterator[str]:
    """What changes; of a settings file, each setting in it."""
    name = path.removeprefix("data.")
    if name not in SETTINGS:
        yield f"{path}: {before} -> {after}"
        return
    old, new = _settings_in(before, name), _settings_in(after, name)
    if old is None or new is None:
        yield f"{name}: it was not a settings file"
        return
    changed = [each for each in sorted({*old, *new}) if old.get(each) != new.get(each)]
    for each in changed:
        yield f"{name}: {each}: {old.get(each, 'not set')} -> {new.get(each, 'not set')}"
    if not changed:
        yield f"{name}: its comments or its order"


def _settings_in(text: object, name: str) -> dict[str, object] | None:
    """By dotted path; None for what is on the cluster and cannot be read."""
    try:
        found = parse_yaml(str(text or ""), name) or {}
    except BadRecipe:
        return None
    return dict(leaves(found)) if isinstance(found, Mapping) else None
