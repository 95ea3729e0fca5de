"""``ft status`` says why work waits on a cluster, where the cluster says so."""

from ft_assets.control.submissions.status import State, Status
from ft_assets.control.submissions.waiting import explained
from ft_assets.control.submissions.works import Work
from ft_resources.attempts import Attempt
from ft_resources.store import Store
from ft_resources.waiting import Waiting
from tests.resources.kubernetes.specs import spec_of


class Says:
    def __init__(self, reason: str) -> None:
        self.reason = reason

    def why_waiting(self, attempt: Attempt) -> Waiting:
        return Waiting(reason=self.reason, what="the quota of its queue is in use", remedy="Raise it.")  # type: ignore[arg-type]


def told(tmp_path, reason: str, **facts: object) -> Status:
    status = Status(
        submission="1",
        dataset="d",
        recipe="r",
        actor="a",
        created_at="",
        state=State.PREEMPTED,
        detail="no sign of life",
    )
    work = Work(asset="checkpoint", address=spec_of().address, attempt=1, **facts)  # type: ignore[arg-type]
    return explained(Store(str(tmp_path / "s")), status, (work,), Says(reason))


def test_a_queued_job_is_queued_and_not_preempted(tmp_path) -> None:
    found = told(tmp_path, "quota")
    assert (found.state, found.detail) == (State.QUEUED, "waits: the quota of its queue is in use. Raise it.")


def test_work_that_reports_or_runs_does_not_wait(tmp_path) -> None:
    assert told(tmp_path, "running").state is State.PREEMPTED
    assert told(tmp_path, "quota", progress={"phase": "training"}).state is State.PREEMPTED
