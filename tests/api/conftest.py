"""The command line's project, with two dataset versions, recipes of two tenants, and a tenants file with a quota."""

from tests.cli.conftest import ft as ft
from tests.cli.conftest import instance as instance
from tests.cli.conftest import pair as pair
from tests.cli.conftest import project as project
