"""Workers of all these tests are forks of a process that has the libraries."""

import pytest

from tests.warm_workers.fixture import warm as warm


@pytest.fixture(autouse=True)
def workers(warm: None) -> None:
    """For every test."""
