"""The same worlds as for promotion."""

from tests.control.lines.conftest import judged_well, line, world  # noqa: F401
