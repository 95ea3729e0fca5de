"""Workers are forks of a process that has the libraries where a test says so."""

from tests.warm_workers.fixture import warm as warm
