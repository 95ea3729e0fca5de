"""The order of all tests: what takes longest begins first, so that no process is left alone with it at the end."""

import os

import pytest

from tests.cluster.fixtures import cluster as cluster

# The machine's cache holds what earlier runs fetched, and tests see what is fetched.
os.environ.pop("FT_CACHE", None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole runs, then the other files that start workers or servers, then all others; files stay together."""
    slow = {item.path for item in items if item.get_closest_marker("e2e")}
    items.sort(key=lambda item: (item.path.parent.name != "e2e", item.path not in slow))
