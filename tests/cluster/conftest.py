"""Tests of the cluster itself do not wait as long as a real controller does; what is run on it sees the real delay."""

import pytest

from tests.cluster.jobs import JobController


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobController, "pods_after_s", 0.1)
