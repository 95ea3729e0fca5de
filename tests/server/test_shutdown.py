"""A server that is told to end: listeners are sent elsewhere, and an upload that is under way is finished."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest
from fastapi import FastAPI

from ft_assets import api
from ft_assets.server import streams
from ft_assets.server.serving import Server, server_of
from tests.e2e.project import Project
from tests.server.conftest import access as access
from tests.server.conftest import served as served
from tests.server.conftest import until, upload
from tests.server.test_streams import listen


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams of other tests of this process go on."""
    monkeypatch.setattr(streams, "_ENDING", threading.Event())


@pytest.fixture
def server(served: FastAPI, ending: None) -> Iterator[Server]:
    server = server_of(served, host="127.0.0.1", port=0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started)
    yield server
    server.should_exit = server.force_exit = True
    thread.join(10)


def client_of(server: Server, access: api.Access) -> openai.OpenAI:
    port = server.servers[0].sockets[0].getsockname()[1]
    _, key = api.create_key("acme", role="member", name="ann", access=access, actor="root")
    return openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=key, max_retries=0)


def test_who_listens_is_told_to_come_again_and_no_stream_keeps_the_server(
    server: Server, project: Project, access: api.Access
) -> None:
    client = client_of(server, access)
    job = client.fine_tuning.jobs.create(model="tiny", training_file=upload(client, project.dataset())).id
    listening = listen(client, job)
    next(listening)
    server.handle_exit(signal.SIGTERM, None)
    with pytest.raises(openai.APIError, match="Connect again"):
        list(listening)
    until(lambda: not server.server_state.connections)


def test_an_upload_that_is_under_way_is_finished_and_no_new_one_begins(
    server: Server, project: Project, access: api.Access, tmp_path: Path
) -> None:
    client, told, told_to_end = client_of(server, access), list[httpx.Response](), threading.Event()
    data = project.dataset().read_bytes()
    head = b'--x\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n--x\r\n'
    head += b'content-disposition: form-data; name="file"; filename="rows.jsonl"\r\n\r\n'
    under_way = threading.Event()

    def body() -> Iterator[bytes]:
        yield head + data[:100]
        under_way.set()
        assert told_to_end.wait(600)
        yield data[100:] + b"\r\n--x--\r\n"

    headers = {"authorization": f"Bearer {client.api_key}", "content-type": "multipart/form-data; boundary=x"}
    address = f"{client.base_url}files"
    sending = threading.Thread(target=lambda: told.append(httpx.post(address, content=body(), headers=headers)))
    sending.start()
    assert under_way.wait(600)
    until(lambda: server.server_state.tasks)
    server.handle_exit(signal.SIGTERM, None)
    until(lambda: not server.servers[0].is_serving())
    with pytest.raises(openai.APIConnectionError):
        client.files.list()
    told_to_end.set()
    sending.join()
    assert (told[0].status_code, told[0].json()["bytes"]) == (200, len(data))
