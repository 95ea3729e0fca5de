"""The queue's sensor on a real project."""

import dagster as dg
import pytest

from ft_assets.control.notices.queue_alerts import queue_event
from ft_assets.control.submissions import status
from ft_assets.control.submissions.works import read_works
from ft_assets.records.due_notices import markers, read_markers
from ft_assets.records.submissions import Submission, SubmissionStatus, finish
from ft_resources.attempts import Attempt
from ft_resources.dagster_resources import LauncherResource
from ft_resources.errors import ClusterUnavailable
from ft_resources.kubernetes.api import ApiRefusal
from ft_resources.waiting import Waiting
from ft_sensors.queue import queue_sensor
from tests.e2e.project import Project
from tests.made import submitted
from tests.sensors.conftest import add_version, register, say


def tick(project: Project, instance: dg.DagsterInstance) -> str:
    return say(project, instance, queue_sensor, launcher=LauncherResource())


def limit(project: Project, minutes: float) -> None:
    (project.folder / "tenants.yaml").write_text(
        f"tiers: {{premium: {{max_wait_minutes: {minutes}}}}}\ntenants: {{acme: {{tier: premium}}}}\n"
    )


def test_a_wait_beyond_the_tiers_limit_is_a_breach_until_it_ends(project, instance) -> None:
    assert tick(project, instance) == "no tier has max_wait_minutes"
    register(project)
    limit(project, 60.0)
    submission = submitted(project.store, add_version(project))
    assert tick(project, instance) == "premium: 1 wait"
    limit(project, 0.000001)
    assert tick(project, instance) == "premium: 1 wait, breach"
    assert tick(project, instance) == "premium: 1 wait"
    told = len(markers(project.store))
    finish(project.store, submission, SubmissionStatus.CANCELLED, reason="no more")
    assert tick(project, instance) == "premium: 0 wait, recovered"
    assert tick(project, instance) == "premium: 0 wait"
    assert told == 1


class Cluster:
    """A launcher that says why something waits, or does not."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem, self.asked = problem, list[str]()
        self.explains = self

    def why_waiting(self, attempt: Attempt) -> Waiting:
        self.asked.append(attempt.address.asset)
        if self.problem:
            raise self.problem
        return Waiting(reason="quota", what="the quota of its queue is in use", said="insufficient\nunused quota")


def queued(project: Project, monkeypatch: pytest.MonkeyPatch) -> Submission:
    """A submission whose first work has a Job that nothing is heard of."""
    monkeypatch.setattr(status, "LEASE_S", -1.0)
    register(project)
    limit(project, 0.000001)
    submission = submitted(project.store, add_version(project))
    work = read_works(project.store, submission)[0]
    Attempt(project.store, work.address, 1).claim("a")
    return submission


def details(project: Project) -> tuple[str, ...]:
    (due,) = read_markers(project.store, markers(project.store), [])
    return queue_event(project.store, due).details


def test_a_breach_says_why_work_waits_where_the_cluster_can_tell(project, instance, monkeypatch) -> None:
    cluster = Cluster()
    monkeypatch.setattr(LauncherResource, "launcher", cluster)
    submission = queued(project, monkeypatch)
    assert tick(project, instance) == "premium: 1 wait, breach"
    reason = "the quota of its queue is in use (insufficient unused quota)"
    assert details(project) == (f"{submission.id}: dataset: {reason}",)
    # The cluster is asked when a breach is told, and not while it lasts.
    assert tick(project, instance) == "premium: 1 wait"
    assert cluster.asked == ["dataset"]


@pytest.mark.parametrize(
    "problem", [ClusterUnavailable("no answer", where="API", remedy=""), ApiRefusal(403, "Forbidden", "no events")]
)
def test_a_cluster_that_does_not_say_keeps_no_breach_from_being_told(project, instance, monkeypatch, problem) -> None:
    monkeypatch.setattr(LauncherResource, "launcher", Cluster(problem))
    submission = queued(project, monkeypatch)
    assert tick(project, instance) == "premium: 1 wait, breach"
    assert details(project) == (submission.id,)
