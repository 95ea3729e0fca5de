"""A fresh world for each test."""

from tests.evals.conftest import world

__all__ = ["world"]
