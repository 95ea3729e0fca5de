"""Matrices of which `make test` runs the corners, and `make test-long` all."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def corners(all_of_them: Iterable[str], chosen: Collection[str]) -> list[Any]:
    """Values for ``parametrize``; what is not ``chosen`` is marked ``long``."""
    return [pytest.param(name, marks=() if name in chosen else pytest.mark.long) for name in all_of_them]
