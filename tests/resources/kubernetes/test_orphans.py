"""Which Jobs nobody waits for, and what becomes of them."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ft_resources.kubernetes.job_plan import plan_pod
from ft_resources.kubernetes.manifests import job as job_manifest
from ft_resources.kubernetes.orphans import MARGIN_S, UNWANTED_S, Standing, note_unwanted, plan_orphans
from ft_resources.kubernetes.queue import job_of
from tests.resources.kubernetes.specs import settings_of, spec_of

NOW = 1_800_000_000.0


def standing(*, age_s: float, ended: bool = False, **facts: object) -> Standing:
    job = job_manifest(plan_pod(spec_of(attempt=3), settings_of()))
    job["metadata"]["creationTimestamp"] = datetime.fromtimestamp(NOW - age_s, UTC).isoformat()
    job["status"] = {"conditions": [{"type": "Failed", "status": "True"}]} if ended else {}
    return Standing(job=job_of(job), **{"closed_at": None, "collected": False, "wanted": True, **facts})


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
        ({"age_s": 2 * UNWANTED_S, "wanted": False, "unwanted_s": UNWANTED_S}, "stop"),
        # A training of days without a submission, whose run worker just died: its run is about to be retried.
        ({"age_s": 99 * UNWANTED_S, "wanted": False, "unwanted_s": 60.0}, None),
        ({"age_s": UNWANTED_S / 2, "wanted": False}, None),
        ({"age_s": 2 * UNWANTED_S, "wanted": True}, None),
    ],
)
def test_what_becomes_of_a_job(facts: dict, deed: str | None) -> None:
    found = plan_orphans([standing(**facts)], NOW)
    assert [(orphan.attempt, orphan.deed) for orphan in found] == ([(3, deed)] if deed else [])


def test_who_is_unwanted_is_so_from_when_it_was_first_seen_without_a_break() -> None:
    one = standing(age_s=9.0, wanted=False)
    first, second = (replace(one, job=replace(one.job, uid=uid)) for uid in "ab")
    since = note_unwanted([first, second], {"a": NOW - 60.0, "gone": 1.0}, NOW)
    assert since == {"a": NOW - 60.0, "b": NOW}
    assert note_unwanted([replace(first, wanted=True)], since, NOW) == {}
    assert note_unwanted([first], {"a": NOW + 3600.0}, NOW) == {"a": NOW}, "a clock that went back"


def test_a_job_that_is_being_deleted_or_says_no_address_is_left_alone() -> None:
    one = standing(age_s=2 * UNWANTED_S, wanted=False, unwanted_s=UNWANTED_S)
    deleted, foreign = replace(one.job, removing=True), replace(one.job, address="")
    assert plan_orphans([replace(one, job=job) for job in (deleted, foreign)], NOW) == []


def test_a_listed_job_says_what_it_makes_and_whether_it_is_on_its_way_out() -> None:
    manifest = job_manifest(plan_pod(spec_of(attempt=3), settings_of()))
    manifest["metadata"] |= {"uid": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    job = job_of(manifest)
    assert (job.uid, job.address, job.attempt, job.removing) == ("a", str(spec_of(attempt=3).address), 3, True)
