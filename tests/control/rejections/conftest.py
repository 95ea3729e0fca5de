"""A fresh world for each test."""

from tests.workers.evals.conftest import world

__all__ = ["world"]
