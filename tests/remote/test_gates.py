"""Verdicts and waivers at a server: the very tests of the command line, with another ``ft``."""

import pytest

from tests.cli import test_gates as here
from tests.cli.test_gates import world as world
from tests.control.lines.test_graph import project as project
from tests.remote.conftest import Far

pytestmark = pytest.mark.dagster


@pytest.fixture(autouse=True)
def at_the_server(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "ft", lambda *arguments: far("gate", *arguments))


test_verdicts_and_waivers = here.test_verdicts_are_shown_with_their_figures_and_only_what_is_undecided_can_be_waived
test_what_was_asked_for = here.test_what_a_submission_asked_for_is_shown_and_waived_as_it_is_judged
test_while_it_is_evaluated = here.test_while_a_submission_is_at_the_pair_its_gates_are_told_to_wait_for_it
