"""Events as they happen."""

import threading
from typing import Any

import openai
import pytest
from openai import Stream
from openai.types.fine_tuning import FineTuningJobEvent
from starlette.concurrency import run_in_threadpool

from ft_assets import api
from ft_assets.records.submissions import SubmissionStatus, finish
from ft_assets.server import event_pages, streams
from ft_resources.errors import DatabaseUnavailable
from tests.e2e.project import Project
from tests.server.conftest import Client, settled, submission_of, until, upload
from tests.server.test_openai_client import ADAPTER


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job and who listens to it are looked at all the time."""
    monkeypatch.setattr(event_pages, "_STREAMS", streams.Streams(every_s=0.02, identify_every_s=0.02))


def listen(client: openai.OpenAI, job: str, **options: Any) -> Stream[FineTuningJobEvent]:
    """What SERVER-SENT EVENTS are read by in OpenAI's client."""
    return client.get(
        f"/fine_tuning/jobs/{job}/events",
        cast_to=FineTuningJobEvent,
        stream=True,
        stream_cls=Stream[FineTuningJobEvent],
        options={"params": {"stream": True}, **options},
    )


def test_a_client_hears_of_each_event_once_until_the_job_ends(project: Project, client: Client) -> None:
    acme = client()
    job = settled(acme, acme.fine_tuning.jobs.create(model="tiny", training_file=upload(acme, project.dataset())).id)
    heard = []
    for event in listen(acme, job.id):
        if not heard:
            finish(project.store, submission_of(project, job), SubmissionStatus.ACCEPTED, adapter=ADAPTER)
        heard.append(event.id)
    told = [event.id for event in acme.fine_tuning.jobs.list_events(job.id)]
    assert heard == told[::-1]
    # Who was cut off goes on after what it heard last.
    later = listen(acme, job.id, headers={"Last-Event-ID": heard[2]})
    assert [event.id for event in later] == heard[3:]


def test_many_listeners_read_a_job_once(project: Project, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    acme, looks, ended = client(), [], threading.Event()
    look = streams._look

    def counted(*arguments: Any) -> Any:
        looks.append(arguments)
        return look(*arguments)

    async def until_the_end(_: float) -> None:
        await run_in_threadpool(ended.wait)

    shared = streams.Streams(sleep=until_the_end)
    monkeypatch.setattr(streams, "_look", counted)
    monkeypatch.setattr(event_pages, "_STREAMS", shared)
    job = settled(acme, acme.fine_tuning.jobs.create(model="tiny", training_file=upload(acme, project.dataset())).id)
    heard: list[int] = []
    threads = [threading.Thread(target=lambda: heard.append(len(list(listen(acme, job.id))))) for _ in range(20)]
    for thread in threads:
        thread.start()
    until(lambda: [each.listeners for each in shared._jobs.values()] == [20])
    finish(project.store, submission_of(project, job), SubmissionStatus.CANCELLED, reason="enough")
    ended.set()
    for thread in threads:
        thread.join()
    assert len(heard) == 20
    assert len(set(heard)) == 1
    # One before the end and one after it, and not one for each who listens.
    assert len(looks) == 2


def test_another_tenant_s_events_are_not_heard(project: Project, client: Client) -> None:
    acme, globex = client(), client("globex")
    job = acme.fine_tuning.jobs.create(model="tiny", training_file=upload(acme, project.dataset())).id
    with pytest.raises(openai.NotFoundError):
        listen(globex, job)


def test_a_revoked_key_ends_what_it_listens_to(project: Project, client: Client, access: api.Access) -> None:
    acme, other = client(), client()
    job = settled(acme, acme.fine_tuning.jobs.create(model="tiny", training_file=upload(acme, project.dataset())).id)
    listening, going_on = listen(acme, job.id), listen(other, job.id)
    next(listening)
    next(going_on)
    api.revoke_key(acme.api_key, access=access, actor="root")
    with pytest.raises(openai.APIError, match="is revoked"):
        list(listening)
    finish(project.store, submission_of(project, job), SubmissionStatus.CANCELLED, reason="enough")
    assert list(going_on)


def test_a_database_that_does_not_answer_ends_no_stream(
    project: Project, client: Client, access: api.Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = client()
    job = settled(acme, acme.fine_tuning.jobs.create(model="tiny", training_file=upload(acme, project.dataset())).id)
    listening = listen(acme, job.id)
    next(listening)

    def away(_: str) -> None:
        raise DatabaseUnavailable("the access database does not answer")

    monkeypatch.setattr(access, "identify", away)
    finish(project.store, submission_of(project, job), SubmissionStatus.CANCELLED, reason="enough")
    assert list(listening)
