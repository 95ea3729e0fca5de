"""A fresh world for each test."""

from tests.control.lines.conftest import world  # noqa: F401
