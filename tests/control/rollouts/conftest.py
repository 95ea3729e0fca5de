"""Lines with adapters, as promotions have them."""

from tests.control.lines.conftest import judged_well, line, world  # noqa: F401
