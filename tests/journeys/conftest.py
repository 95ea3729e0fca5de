"""The journeys."""

from tests.journeys.fixtures import accepted as accepted
from tests.journeys.fixtures import rejected as rejected
