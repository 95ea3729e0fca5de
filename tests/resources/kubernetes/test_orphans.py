"""Which Jobs nobody waits for, and what becomes of them."""

from datetime import UTC, datetime

import pytest

from ft_resources.kubernetes.manifests import job as job_manifest
from ft_resources.kubernetes.orphans import MARGIN_S, UNWANTED_S, Standing, plan_orphans
from ft_resources.kubernetes.plan import plan_pod
from tests.resources.kubernetes.specs import settings_of, spec_of

NOW = 1_800_000_000.0


def standing(*, age_s: float, ended: bool = False, **facts: object) -> Standing:
    job = job_manifest(plan_pod(spec_of(attempt=3), settings_of()))
    job["metadata"]["creationTimestamp"] = datetime.fromtimestamp(NOW - age_s, UTC).isoformat()
    job["status"] = {"conditions": [{"type": "Failed", "status": "True"}]} if ended else {}
    return Standing(job=job, **{"closed_at": None, "collected": False, "wanted": True, **facts})


@pytest.mark.parametrize(
    ("facts", "deed"),
    [
        ({"age_s": 2 * MARGIN_S}, None),
        ({"age_s": 2 * MARGIN_S, "closed_at": NOW - MARGIN_S - 1}, "end"),
        # A training of days whose worker has just said how it ended: its pod is on its way out.
        ({"age_s": 2 * UNWANTED_S, "closed_at": NOW - 1}, None),
        ({"age_s": MARGIN_S / 2, "closed_at": NOW - MARGIN_S / 4}, None),
        ({"age_s": 2 * MARGIN_S, "ended": True}, "close"),
        ({"age_s": 2 * MARGIN_S, "ended": True, "closed_at": NOW - MARGIN_S / 4}, "collect"),
        ({"age_s": 2 * MARGIN_S, "ended": True, "closed_at": NOW - MARGIN_S / 4, "collected": True}, None),
        ({"age_s": 2 * UNWANTED_S, "wanted": False}, "stop"),
        ({"age_s": UNWANTED_S / 2, "wanted": False}, None),
        ({"age_s": 2 * UNWANTED_S, "wanted": True}, None),
    ],
)
def test_what_becomes_of_a_job(facts: dict, deed: str | None) -> None:
    found = plan_orphans([standing(**facts)], NOW)
    assert [(orphan.attempt, orphan.deed) for orphan in found] == ([(3, deed)] if deed else [])


def test_a_job_that_is_being_deleted_or_says_no_address_is_left_alone() -> None:
    deleted, foreign = (standing(age_s=2 * UNWANTED_S, wanted=False) for _ in range(2))
    deleted.job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    foreign.job["metadata"]["annotations"] = {}
    assert plan_orphans([deleted, foreign], NOW) == []
