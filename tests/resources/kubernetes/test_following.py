"""What a waiting process makes of a Job's news, with an API that says what a test wants."""

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from ft_resources.attempts import Attempt
from ft_resources.kubernetes import followed as module
from ft_resources.kubernetes.api import Api
from ft_resources.kubernetes.followed import FollowedJob, JobWatch
from ft_resources.store import Store
from tests.cluster.fixtures import until
from tests.resources.kubernetes.specs import settings_of, spec_of

NOW = 1_800_000_000.0
Stream = Callable[[str], Iterator[dict[str, Any]]]


def job_at(version: int, *, suspend: bool = False, active: int = 0, condition: str = "") -> dict[str, Any]:
    conditions = [{"type": condition, "status": "True"}] if condition else []
    return {
        "metadata": {"name": "j", "namespace": "ft-acme", "uid": "u", "resourceVersion": str(version)},
        "spec": {"suspend": suspend},
        "status": {"active": active, "ready": 0, "conditions": conditions},
    }


class Told:
    """An API whose Job, pods and watches are what the test says; ``asked`` are the versions of watches and lists."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.asked = stream, list[str]()
        self.job: dict[str, Any] | None = job_at(1)
        self.pods: list[dict[str, Any]] = []

    def list(self, path: str, query: Any, **_: Any) -> dict[str, Any]:
        self.asked.append("list")
        return {"metadata": {"resourceVersion": "7"}, "items": [self.job] if self.job else []}

    def items(self, path: str, query: Any, **_: Any) -> Sequence[dict[str, Any]]:
        return tuple(self.pods)

    def watch(self, path: str, version: str, query: Any) -> Iterator[dict[str, Any]]:
        self.asked.append(version)
        return self.stream(version)


def until_closed(closed: threading.Event) -> Stream:
    def wait(_: str) -> Iterator[dict[str, Any]]:
        closed.wait(60.0)
        return iter(())

    return wait


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(module, "_LONGEST_WAIT_S", 0.02)


def test_a_stream_that_ends_in_silence_leads_to_a_new_look(quick: None) -> None:
    """A server restored from a backup has nothing newer than the version asked for, and says so by saying nothing."""
    api = Told(lambda _: iter(()))
    following = JobWatch(api, "ft-acme", "j")  # type: ignore[arg-type]
    until(lambda: len(api.asked) > 2)
    api.job = job_at(2, condition="Complete")
    until(lambda: following.job == api.job)
    following.close()


def test_a_stream_that_told_something_goes_on_behind_it(quick: None) -> None:
    news = iter(range(8, 12))

    def stream(_: str) -> Iterator[dict[str, Any]]:
        yield {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(next(news, 12))}}}

    api = Told(stream)
    following = JobWatch(api, "ft-acme", "j")  # type: ignore[arg-type]
    until(lambda: len(api.asked) > 4)
    following.close()
    assert api.asked[:5] == ["list", "7", "8", "9", "10"]


@pytest.mark.parametrize("code", [410, 500, 504])
def test_a_server_that_tells_nothing_but_errors_is_asked_ever_more_seldom(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = {"type": "ERROR", "object": {"kind": "Status", "code": code}}
    api = Told(lambda _: iter([error]))
    waits: list[float] = []
    following = JobWatch(api, "ft-acme", "j")  # type: ignore[arg-type]
    following._closed.wait = lambda timeout=None: bool(waits.append(timeout or 0.0))  # type: ignore[method-assign]
    until(lambda: len(waits) > 8)
    following.close()
    assert max(waits) == module._LONGEST_WAIT_S
    assert waits[:8] == sorted(waits[:8])
    assert api.asked.count("list") >= len(waits) - 1, "each error leads to a new look"


class Still:
    """A watch that has heard of this Job."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = self.last = job

    def close(self) -> None:
        return


def pod(name: str, *, phase: str, started: float, gone_by: float | None = None) -> dict[str, Any]:
    def at(moment: float) -> str:
        return datetime.fromtimestamp(moment, UTC).isoformat()

    meta = {"name": name, "uid": name, "creationTimestamp": at(started)}
    deleted = {} if gone_by is None else {"deletionTimestamp": at(gone_by)}
    return {"metadata": meta | deleted, "spec": {"nodeName": "n"}, "status": {"phase": phase, "startTime": at(started)}}


def test_a_job_that_kueue_puts_back_before_its_worker_came_up_waits_on_and_owes_nothing(store: Store) -> None:
    """Its first pod was seen last while it ended; it is gone, and another one runs hours later."""
    closed, now = threading.Event(), [NOW]
    api = Told(until_closed(closed))
    followed = FollowedJob(
        api=api,  # type: ignore[arg-type]
        attempt=Attempt(store, spec_of().address, 1),
        namespace="ft-acme",
        settings=settings_of(queue="ft"),
        clock=lambda: now[0],
        look_every_s=0.0,
        launched=True,
    )
    followed.watch.close()

    def hears(job: dict[str, Any]) -> Any:
        followed.watch = Still(job)  # type: ignore[assignment]
        return followed.find_ending()

    api.pods = [pod("first", phase="Running", started=NOW - 60.0, gone_by=NOW + 5.0)]
    assert hears(job_at(2, active=1)) is None
    api.pods = []
    assert hears(job_at(3, suspend=True)) is None
    now[0] += 3600.0
    assert hears(job_at(3, suspend=True)) is None, "it was taken for lost with its node"
    api.pods = [pod("second", phase="Pending", started=now[0])]
    assert hears(job_at(4, active=1)) is None
    assert [each["metadata"]["name"] for each in followed.last_pods] == ["second"]
    closed.set()


class Answers:
    """A connection that answers 429 once, and then an empty object."""

    default_headers: dict[str, str] = {}  # noqa: RUF012

    class configuration:
        host = "http://x"

    def __init__(self, after: str) -> None:
        self.left = [(429, {"Retry-After": after}), (200, {})]
        self.rest_client = self.pool_manager = self

    def update_params_for_auth(self, *_: Any) -> None:
        return

    def request(self, *_: Any, **__: Any) -> Any:
        class Answer:
            status, headers = self.left.pop(0)

            def read(self) -> bytes:
                return b"{}"

            def close(self) -> None:
                return

        return Answer()


@pytest.mark.parametrize("after", ["86400", "inf", "nan", "-5", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_server_cannot_put_a_process_to_sleep_for_a_day(after: str) -> None:
    slept: list[float] = []
    api = Api(client=Answers(after), sleep=slept.append)
    assert api.get("/x") == {}
    assert len(slept) == 1
    assert 0.0 <= slept[0] <= 10.0
