"""What is over goes, what is still named stays, and no tenant waits for all the jobs of another."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from ft_assets import api
from ft_assets.records.jobs import Job
from ft_assets.records.sorted_ids import new_id
from ft_assets.records.submissions import SubmissionStatus, finish
from ft_assets.server import settling
from ft_assets.server.settling import Settling
from ft_resources.store import Entry, Store
from tests.cli.test_lines import adapters as adapters
from tests.e2e.project import Project
from tests.server.conftest import Client, settled, submission_of, upload

HOUR_S, DAY_S = 3600.0, 86_400.0


def test_a_deleted_model_leaves_the_equal_one_of_another_job(
    project: Project, adapters: list[Any], client: Client
) -> None:
    acme, address = client(role="admin"), str(adapters[0].address)
    file = upload(acme, project.dataset())
    names = []
    for suffix in ("first", "second"):
        job = settled(acme, acme.fine_tuning.jobs.create(model="tiny", training_file=file, suffix=suffix).id)
        finish(project.store, submission_of(project, job), SubmissionStatus.ACCEPTED, adapter=address)
        names.append(acme.fine_tuning.jobs.retrieve(job.id).fine_tuned_model)
    first, second = names
    assert acme.models.delete(first).deleted
    with pytest.raises(openai.NotFoundError):
        acme.models.retrieve(first)
    assert acme.models.retrieve(second).id == second
    assert [each.id for each in acme.models.list() if each.id.startswith("ft:")] == [second]
    assert not api.is_deleted(address, store=project.store)
    assert acme.models.delete(second).deleted
    assert api.is_deleted(address, store=project.store)


def test_files_and_uploads_that_are_over_are_removed_and_others_stay(
    project: Project, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme, store = client(), project.store
    kept = upload(acme, project.dataset())
    with project.dataset().open("rb") as rows:
        acme.files.create(
            file=rows, purpose="fine-tune", expires_after={"anchor": "created_at", "seconds": int(HOUR_S)}
        )
    begun = acme.uploads.create(filename="a.jsonl", purpose="fine-tune", bytes=10, mime_type="text/plain")
    acme.uploads.parts.create(begun.id, data=b"12345")
    broken_off = f"acme/files/{new_id()}/content"
    store.put(broken_off, b"half of a file")
    assert api.remove_expired_files(store=store) == 0
    api.end_expired_uploads(store=store)
    assert acme.uploads.parts.create(begun.id, data=b"67890").id
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 2 * HOUR_S)
    assert api.remove_expired_files(store=store) == 1
    api.end_expired_uploads(store=store)
    assert list(store.entries(f"acme/uploads/{begun.id.removeprefix('upload_')}/parts")) == []
    assert store.exists(broken_off)
    monkeypatch.setattr(time, "time", lambda: now + 1.1 * DAY_S)
    assert api.remove_expired_files(store=store) == 1
    assert [entry.path.split("/")[2] for entry in store.entries("acme/files")] == [kept.removeprefix("file-")]


def test_a_tenants_job_waits_for_one_job_of_each_other_and_not_for_all(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "AT_ONCE", 1)
    order: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    def settle(job: Job) -> None:
        begun.set()
        assert go_on.wait(600)
        order.append(job.tenant)

    server = Settling(project.store, settle)
    for number in range(5):
        server.add(_job("acme", number))
    assert begun.wait(600)
    server.add(_job("globex", 0))
    server.add(_job("initech", 0))
    go_on.set()
    server.start()
    server._pool.shutdown(wait=True)
    server._stop.set()
    assert sorted(order) == ["acme"] * 5 + ["globex", "initech"]
    assert order.index("globex") <= 2
    assert order.index("initech") <= 3


def _job(tenant: str, number: int) -> Job:
    return Job(
        id=new_id(), tenant=tenant, model="tiny", training_file="0" * 24, seed=number, actor="a", created_at=time.time()
    )


def test_a_page_of_waiting_jobs_reads_what_they_share_once(
    project: Project, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = client()
    file, reads = upload(acme, project.dataset()), []
    for seed in range(4):
        settled(acme, acme.fine_tuning.jobs.create(model="tiny", training_file=file, seed=seed).id)
    get, entries = Store.get, Store.entries

    def read(store: Store, path: str) -> bytes:
        reads.append(path)
        return get(store, path)

    def list_entries(store: Store, prefix: str) -> Iterator[Entry]:
        reads.append(prefix)
        return entries(store, prefix)

    monkeypatch.setattr(Store, "get", read)
    monkeypatch.setattr(Store, "entries", list_entries)
    assert {each.status for each in acme.fine_tuning.jobs.list(limit=4).data} == {"queued"}
    often = Counter(path for path in reads if path.startswith(("names/", "acme/base_model", "acme/raw_dataset")))
    assert often
    assert set(often.values()) == {1}
