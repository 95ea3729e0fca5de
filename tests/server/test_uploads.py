"""Files in parts, as OpenAI's client sends them."""

import contextlib
import hashlib
import time
from collections.abc import Callable
from typing import Any

import openai
import pytest

from ft_assets import api
from ft_resources.errors import NotFound
from ft_resources.store import Store
from tests.e2e.project import Project
from tests.server.conftest import Client


def test_a_file_in_parts_becomes_the_same_file(project: Project, client: Client) -> None:
    acme, path = client(), project.dataset()
    done = acme.uploads.upload_file_chunked(
        file=path, mime_type="application/jsonl", purpose="fine-tune", part_size=1000, md5=_md5(path.read_bytes())
    )
    assert (done.status, done.bytes) == ("completed", path.stat().st_size)
    assert acme.files.content(done.file.id).read() == path.read_bytes()
    assert acme.files.retrieve(done.file.id).filename == path.name
    # What it was made of is gone, and it is listed once.
    assert not list(project.store.entries(f"acme/uploads/{done.id.removeprefix('upload_')}/parts"))
    assert [file.id for file in acme.files.list()] == [done.file.id]


def test_large_parts_become_a_file(project: Project, client: Client) -> None:
    acme, row = client(), project.dataset().read_bytes()
    data = row * (1 + (20 << 20) // len(row))
    upload = acme.uploads.create(bytes=len(data), filename="a.jsonl", mime_type="text", purpose="fine-tune")
    parts = [acme.uploads.parts.create(upload.id, data=data[start : start + (9 << 20)]).id
             for start in range(0, len(data), 9 << 20)]  # fmt: skip
    file = acme.uploads.complete(upload.id, part_ids=parts, md5=_md5(data)).file
    assert hashlib.sha256(acme.files.content(file.id).read()).digest() == hashlib.sha256(data).digest()


def test_nothing_of_an_upload_is_visible_before_it_is_complete(project: Project, client: Client) -> None:
    acme, data = client(), project.dataset().read_bytes()
    upload = acme.uploads.create(bytes=len(data), filename="a.jsonl", mime_type="text", purpose="fine-tune")
    first, second = (acme.uploads.parts.create(upload.id, data=part).id for part in (data[:2000], data[2000:]))
    assert list(acme.files.list()) == []
    for parts, md5, what in (
        ([first], None, "2000 bytes, and"),
        ([first, first], None, "named twice"),
        ([first, second], "0" * 32, "another MD5"),
        ([first, f"part_{'0' * 24}"], None, "there is no part"),
    ):
        with pytest.raises(openai.BadRequestError, match=what):
            acme.uploads.complete(upload.id, part_ids=parts, **({"md5": md5} if md5 else {}))
    assert list(acme.files.list()) == []
    assert not list(project.store.entries("acme/files"))
    file = acme.uploads.complete(upload.id, part_ids=[first, second]).file
    assert acme.uploads.complete(upload.id, part_ids=[first, second]).file == file
    with pytest.raises(openai.BadRequestError, match="is completed"):
        acme.uploads.cancel(upload.id)


@pytest.mark.parametrize("writes", range(6))
def test_a_process_that_dies_while_it_completes_an_upload_leaves_one_file_and_no_parts(
    project: Project, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    data, announced = project.dataset().read_bytes(), {"filename": "a.jsonl", "purpose": "fine-tune", "mime_type": "t"}
    upload = api.begin_upload("acme", size=len(data), actor="ann", store=project.store, **announced).upload.id
    halves = (data[:2000], data[2000:])
    parts = [api.add_part("acme", upload, iter((part,)), store=project.store) for part in halves]

    class Dead(Exception):
        pass

    def dying(name: str) -> Callable[..., Any]:
        does = getattr(Store, name)

        def change(store: Store, *given: Any) -> Any:
            nonlocal writes
            if writes == 0:
                raise Dead
            writes -= 1
            return does(store, *given)

        return change

    with monkeypatch.context() as dies:
        for name in ("write", "create", "delete"):
            dies.setattr(Store, name, dying(name))
        with contextlib.suppress(Dead):
            api.complete_upload("acme", upload, parts, store=project.store)
    done = api.complete_upload("acme", upload, parts, store=project.store)
    assert done.file is not None
    assert list(api.file_ids("acme", store=project.store)) == [done.file.id]
    assert b"".join(api.read_file("acme", done.file.id, store=project.store)) == data
    assert not list(project.store.entries(f"acme/uploads/{upload}/parts"))
    # A file that is deleted does not come back with the next look at its upload.
    api.delete_file("acme", done.file.id, store=project.store)
    with pytest.raises(NotFound):
        api.complete_upload("acme", upload, parts, store=project.store)
    assert list(api.file_ids("acme", store=project.store)) == []


def test_a_cancelled_or_expired_upload_leaves_nothing(
    project: Project, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme, globex = client(), client("globex")
    ids = [acme.uploads.create(bytes=9, filename="a.jsonl", mime_type="t", purpose="fine-tune").id for _ in range(2)]
    for upload in ids:
        acme.uploads.parts.create(upload, data=b"123456789")
    assert acme.uploads.cancel(ids[0]).status == "cancelled"
    with pytest.raises(openai.NotFoundError):
        globex.uploads.cancel(ids[1])
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3700)
    for upload, state in zip(ids, ("cancelled", "expired"), strict=True):
        with pytest.raises(openai.BadRequestError, match=f"the upload is {state}|the upload is expired"):
            acme.uploads.parts.create(upload, data=b"1")
    assert {entry.path.rpartition("/")[2] for entry in project.store.entries("acme/uploads")} == {
        "upload.json",
        "ended.json",
    }


def test_what_could_not_become_a_file_is_refused_at_once(client: Client) -> None:
    acme = client()
    good = {"bytes": 5, "filename": "a.jsonl", "mime_type": "t", "purpose": "fine-tune"}
    for wrong, what in (
        ({"filename": "a.exe"}, "cannot be read"),
        ({"purpose": "batch"}, "is not a purpose"),
        ({"bytes": 60 << 30}, "over 50 GiB"),
    ):
        with pytest.raises(openai.BadRequestError, match=what):
            acme.uploads.create(**{**good, **wrong})
    upload = acme.uploads.create(**good)
    with pytest.raises(openai.BadRequestError, match="larger than the whole"):
        acme.uploads.parts.create(upload.id, data=b"123456")


def _md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()
