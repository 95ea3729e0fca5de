"""Dotted paths of the leaves of nested mappings."""

from collections.abc import Iterator, Mapping
from typing import Any


def leaves(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """``{"a": {"b": 1}}`` as ``("a.b", 1)``; a list is a leaf."""
    for name, item in value.items():
        if isinstance(item, Mapping):
            yield from leaves(item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", item
