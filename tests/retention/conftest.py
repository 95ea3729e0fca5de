"""The same worlds as for promotion."""

from tests.adapters.conftest import judged_well, line, world  # noqa: F401
