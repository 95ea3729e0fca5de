"""Priorities that change with time: classes and their values, and which Job gets which."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_resources.kubernetes import names
from ft_resources.kubernetes.ageing import STEPS, all_classes, class_for, plan_classes
from ft_resources.kubernetes.job_plan import plan_pod
from ft_resources.kubernetes.manifests import job as job_manifest
from ft_resources.kubernetes.settings import Ageing
from ft_resources.work import Priority
from tests.resources.kubernetes.specs import settings_of, spec_of

NOW, HOUR = 1_800_000_000.0, 3600.0
AGEING = Ageing()
SETTINGS = settings_of(queue="ft-{tenant}")
KNOWN = {name for kind, base in SETTINGS.priority_classes.items() for name in all_classes(kind, base)}
VALUES = {
    name: value for kind, base in SETTINGS.priority_classes.items() for name, value in all_classes(kind, base).items()
}


def job(*, waited_h: float = 0.0, ran_h: float | None = None, wears: str = "", priority: Priority = "batch") -> dict:
    """A Job that was created and, with ``ran_h``, started so long ago."""
    found = job_manifest(plan_pod(spec_of(priority=priority), SETTINGS))
    meta, ran_s = found["metadata"], (ran_h or 0.0) * HOUR
    meta["creationTimestamp"] = datetime.fromtimestamp(NOW - ran_s - waited_h * HOUR, UTC).isoformat()
    found["status"] = {}
    if ran_h is not None:
        found["spec"]["suspend"] = False
        found["status"]["startTime"] = datetime.fromtimestamp(NOW - ran_s, UTC).isoformat()
    if wears:
        meta["labels"][names.PRIORITY] = wears
    return found


def at(done: int, total: int = 100, *, eta_s: float = 600.0, age_s: float = 1.0, phase: str = "training") -> dict:
    return {"phase": phase, "done": done, "total": total, "eta_s": eta_s, "at": NOW - age_s}


def planned(one: dict, progress: dict | None = None, *, now: float = NOW) -> str | None:
    """The class that a Job is to have next; None where it keeps its own."""
    found = plan_classes([(one, progress or {})], SETTINGS, KNOWN, now)
    return found[0].priority_class if found else None


@given(waited=st.floats(0, 1e9), runs=st.booleans(), kept=st.booleans())
def test_every_class_that_ageing_names_is_one_that_the_platform_makes(waited: float, runs: bool, kept: bool) -> None:
    assert class_for("ft-batch", AGEING, waited_s=waited, runs=runs, kept=kept) in KNOWN


def test_work_rises_within_its_priority_and_at_last_past_the_next_ones_newcomers_alone() -> None:
    order = sorted(VALUES, key=lambda name: VALUES[name])
    last = "ft-batch-age-3"
    assert order.index("ft-batch-age-2") < order.index("ft-production") < order.index(last)
    assert order.index(last) < order.index("ft-production-age-1")
    assert order.index("ft-interactive-age-3") < order.index("ft-batch-age-1")


def test_what_runs_is_put_out_by_a_higher_priority_and_by_who_starves_but_not_by_who_only_waited() -> None:
    running = VALUES["ft-batch-running"]
    assert all(VALUES[name] <= running for name in ("ft-batch", "ft-batch-age-1", "ft-batch-age-2"))
    assert VALUES["ft-production"] > running
    assert VALUES["ft-batch-age-3"] > running
    assert VALUES["ft-production-running"] > VALUES["ft-batch-age-3"]


def test_nothing_that_waits_is_above_what_is_nearly_done() -> None:
    waiting = [value for name, value in VALUES.items() if not name.endswith("-done")]
    assert all(VALUES[f"{base}-done"] > max(waiting) for base in SETTINGS.priority_classes.values())


def test_a_job_made_anew_at_another_size_has_waited_since_the_first_one() -> None:
    anew = plan_pod(spec_of(), SETTINGS, waits_since=NOW - 9 * HOUR)
    made = job(waited_h=0.5)
    made["metadata"]["annotations"] = job_manifest(anew)["metadata"]["annotations"]
    assert planned(made) == "ft-batch-age-2"


@pytest.mark.parametrize(("waited_h", "step"), [(0, 0), (3.9, 0), (4.1, 1), (9, 2), (100, STEPS)])
def test_a_waiting_job_rises_with_its_wait(waited_h: float, step: int) -> None:
    assert planned(job(waited_h=waited_h)) == (f"ft-batch-age-{step}" if step else None)


def test_a_job_that_came_to_run_by_its_age_keeps_it() -> None:
    assert planned(job(waited_h=9, ran_h=1, wears="ft-batch-age-2")) == "ft-batch-running"
    assert planned(job(waited_h=13, ran_h=1, wears="ft-batch-age-3")) is None


@pytest.mark.parametrize(
    ("progress", "kept"),
    [
        (at(79), False),
        (at(80), True),
        (at(99), True),
        (at(90, age_s=3600.0), False),
        (at(90, phase="fetching inputs"), False),
        (at(0, 0), False),
        (at(120, 100), False),
        ({}, False),
    ],
)
def test_a_training_is_kept_from_the_part_on_that_its_own_fresh_progress_says(progress: dict, kept: bool) -> None:
    assert planned(job(ran_h=1), progress) == ("ft-batch-done" if kept else "ft-batch-running")


def test_who_says_for_long_that_it_is_nearly_done_is_kept_once() -> None:
    one = job(ran_h=1)
    (change,) = plan_classes([(one, at(90, eta_s=HOUR))], SETTINGS, KNOWN, NOW)
    one["metadata"]["labels"] |= change.patch["metadata"]["labels"]
    one["metadata"]["annotations"] |= change.patch["metadata"]["annotations"]
    assert planned(one, at(90), now=NOW + 1.9 * HOUR) is None
    assert planned(one, {**at(90), "at": NOW + 2.1 * HOUR}, now=NOW + 2.1 * HOUR) == "ft-batch-running"


def test_a_job_that_was_put_out_waits_in_its_own_class_again() -> None:
    assert planned(job(waited_h=1, wears="ft-batch-done")) == "ft-batch"


@given(
    waited=st.floats(0, 200), ran=st.none() | st.floats(0, 200), done=st.integers(0, 100), eta=st.floats(0, 1e6),
    wears=st.sampled_from(sorted(KNOWN)),
)  # fmt: skip
def test_a_second_look_changes_nothing(waited: float, ran: float | None, done: int, eta: float, wears: str) -> None:
    one, progress = job(waited_h=waited, ran_h=ran, wears=wears), at(done, eta_s=eta)
    for change in plan_classes([(one, progress)], SETTINGS, KNOWN, NOW):
        one["metadata"]["labels"] |= change.patch["metadata"]["labels"]
        one["metadata"]["annotations"] |= change.patch["metadata"].get("annotations", {})
    assert planned(one, progress) is None


def test_classes_of_other_hands_and_those_that_the_cluster_lacks_are_left_alone() -> None:
    assert planned(job(waited_h=100, wears="theirs")) is None
    assert plan_classes([(job(waited_h=100), {})], SETTINGS, {"ft-batch"}, NOW) == []
    assert plan_classes([(job(waited_h=100), {})], settings_of(queue="q", ageing=None), KNOWN, NOW) == []


def test_a_job_that_has_ended_or_is_being_deleted_or_has_no_queue_is_left_alone() -> None:
    ended, deleted, unqueued = (job(waited_h=100) for _ in range(3))
    ended["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    del unqueued["metadata"]["labels"][names.QUEUE]
    assert [planned(one) for one in (ended, deleted, unqueued)] == [None] * 3


def test_a_note_that_somebody_garbled_is_no_note() -> None:
    one = job(ran_h=1)
    one["metadata"]["annotations"][names.KEPT_UNTIL] = "soon"
    assert planned(one, at(90)) == "ft-batch-done"
