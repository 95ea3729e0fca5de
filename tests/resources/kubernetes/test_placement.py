"""What is billed where the pods are gone before anybody looked at them."""

import pytest

from ft_resources.attempts import Attempt
from ft_resources.canonical import canonical_json
from ft_resources.kubernetes.placement import record_place
from ft_resources.store import Store
from tests.resources.kubernetes.specs import spec_of

NOW = 1_800_000_000.0
JOB = {
    "metadata": {"namespace": "ft-acme", "name": "j", "creationTimestamp": "2027-01-14T08:00:00Z"},
    "spec": {"template": {"spec": {"containers": [{"name": "worker"}]}}},
    "status": {"startTime": "2027-01-15T07:00:00Z"},
}


@pytest.fixture
def attempt(store: Store) -> Attempt:
    return Attempt(store, spec_of().address, 1)


def recorded(attempt: Attempt) -> dict:
    record_place(attempt, JOB, [], None, cause="stopped", refund="flagged", now=NOW)
    place = attempt.place()
    assert place is not None
    return place


def test_a_worker_that_never_reported_did_not_start_and_costs_nothing(attempt: Attempt) -> None:
    """Its Job had begun an hour before: the pod waited for a node, and was deleted."""
    assert (recorded(attempt)["started_at"], recorded(attempt)["ended_at"]) == (None, None)


def test_time_after_the_last_sign_of_life_is_not_billed(attempt: Attempt) -> None:
    attempt.store.put(f"{attempt.path}/progress.json", canonical_json({"phase": "training", "at": NOW - 3000.0}))
    assert (recorded(attempt)["started_at"], recorded(attempt)["ended_at"]) == (NOW - 3600.0, NOW - 2995.0)
