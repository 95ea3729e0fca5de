"""Code by its name, imported at first use, so that a declaration may name code that needs torch."""

from functools import cache
from importlib import import_module
from typing import Any


@cache
def load(reference: str) -> Any:
    """The object named by ``reference`` (``package.module:name``). Raises ImportError or AttributeError if missing."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)
