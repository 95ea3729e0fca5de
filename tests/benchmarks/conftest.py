"""Workers are forks of a process that has the libraries where a test says so, and a finished project is copied."""

from tests.journeys.fixtures import accepted as accepted
from tests.warm_workers.fixture import warm as warm
