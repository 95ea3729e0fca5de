"""The worlds of ``tests/control``."""

from tests.control.conftest import judged_well as judged_well
from tests.control.conftest import line as line
from tests.control.conftest import world as world
