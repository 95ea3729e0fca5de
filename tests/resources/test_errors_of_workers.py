"""A worker's own error, raised again by who waited for it."""

import pytest

from ft_resources import errors
from ft_resources.attempts import Attempt, Ending
from ft_resources.execution import error_of
from ft_resources.outcomes import Outcome
from ft_resources.store import Store
from tests.resources.small_work import request_for

NAMES = [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.UserError)]


@pytest.mark.parametrize("name", [*NAMES, "Exception", "Any", "os", "__name__", ""])
def test_whatever_type_a_worker_names_its_words_come_back(store: Store, name: str) -> None:
    """Some errors are made of other words; one of these took the place of what the worker said."""
    error = {"type": name, "what": "the rows are gone", "where": "there", "remedy": "do this"}
    found = error_of(
        Ending(outcome=Outcome.USER_ERROR, error=error), Attempt(store, request_for("write").address, 1), "acme.x.v1"
    )
    assert "the rows are gone" in found.what
    assert (found.where, found.remedy) == ("there", "do this")
