"""Workers of all these tests are forks of a process that has the libraries, and nothing goes to MLflow."""

from collections.abc import Iterator

import pytest

from tests.journeys.fixtures import accepted as accepted
from tests.journeys.fixtures import rejected as rejected
from tests.journeys.fixtures import safe_base as safe_base
from tests.warm_workers.fixture import warm as warm


@pytest.fixture(scope="package", autouse=True)
def workers(warm: None) -> Iterator[None]:
    """For every test."""
    with pytest.MonkeyPatch.context() as patch:
        # MLflow makes its database in a thread that goes on beside a test, and alembic bears no two threads.
        patch.setenv("FT_TRACKING", "off")
        yield
