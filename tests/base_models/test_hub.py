"""The fake hub and the real client keep the same promises; the real one talks to a small server over HTTP."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from ft_assets.base_models.lock import lock_hub
from ft_resources.canonical import sha256_file
from ft_resources.errors import BadBase
from ft_resources.hub import Hub, HubUnavailable, HuggingFaceHub, git_blob_id, verify_file
from tests.fake_hub import FakeHub

REPO = "org/tiny"


class HubServer(BaseHTTPRequestHandler):
    """The two routes of the Hugging Face Hub that are needed, over what a FakeHub holds."""

    content: FakeHub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = unquote(urlparse(self.path).path).strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            self._model("/".join(parts[2:4]), "/".join(parts[5:]))
        else:
            self._file("/".join(parts[:2]), parts[3], parts[4])

    def _model(self, repo: str, revision: str) -> None:
        if repo != REPO:
            self._answer(404, error="RepoNotFound")
            return
        try:
            snapshot = self.content.snapshot(repo, revision)
        except BadBase:
            self._answer(404, error="RevisionNotFound")
            return
        siblings = [
            {
                "rfilename": file.name,
                "size": file.size,
                "blobId": file.blob_id,
                **({"lfs": {"sha256": file.sha256, "size": file.size, "pointerSize": 100}} if file.sha256 else {}),
            }
            for file in snapshot.files.values()
        ]
        self._answer(200, json.dumps({"id": repo, "sha": snapshot.commit, "siblings": siblings}).encode())

    def _file(self, repo: str, commit: str, name: str) -> None:
        data = self.content.commits[repo, commit].get(name)
        if data is None:
            self._answer(404, error="EntryNotFound")
            return
        blob_id = self.content.snapshot(repo, commit).files[name].blob_id
        self._answer(200, data, **{"X-Repo-Commit": commit, "ETag": f'"{blob_id}"'})

    def _answer(self, status: int, data: bytes = b"", error: str = "", **headers: str) -> None:
        self.send_response(status)
        if error:
            self.send_header("X-Error-Code", error)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def fake() -> FakeHub:
    return FakeHub()


@pytest.fixture(params=["fake", "http"])
def hub(request: pytest.FixtureRequest, fake: FakeHub) -> Iterator[Hub]:
    if request.param == "fake":
        yield fake
        return
    handler = type("Handler", (HubServer,), {"content": fake})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield HuggingFaceHub(f"http://127.0.0.1:{server.server_port}")
    server.shutdown()
    server.server_close()


def test_a_branch_is_resolved_to_its_commit_and_files(hub: Hub, fake: FakeHub, base: Path) -> None:
    commit = fake.commit(REPO, base)
    snapshot = hub.snapshot(REPO, "main")
    assert snapshot == hub.snapshot(REPO, commit)
    assert snapshot.commit == commit
    assert set(snapshot.files) == {path.name for path in base.iterdir()}
    assert snapshot.files["model.safetensors"].sha256 == sha256_file(base / "model.safetensors")
    assert snapshot.files["config.json"].sha256 is None
    assert snapshot.files["config.json"].blob_id == git_blob_id(base / "config.json")


def test_a_downloaded_file_is_alone_in_its_folder_and_verifies(
    hub: Hub, fake: FakeHub, base: Path, tmp_path: Path
) -> None:
    commit = fake.commit(REPO, base)
    for name, file in hub.snapshot(REPO, "main").files.items():
        hub.download(REPO, commit, name, tmp_path / "out" / name)
        verify_file(tmp_path / "out" / name, file, "here")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {path.name for path in base.iterdir()}


def test_a_commit_stays_what_it_was_when_the_branch_moves(hub: Hub, fake: FakeHub, base: Path, tmp_path: Path) -> None:
    commit = fake.commit(REPO, base)
    before = (base / "config.json").read_bytes()
    (base / "config.json").write_text("{}")
    assert fake.commit(REPO, base) != commit
    hub.download(REPO, commit, "config.json", tmp_path / "config.json")
    assert (tmp_path / "config.json").read_bytes() == before


@pytest.mark.parametrize(("repo", "revision"), [("org/none", "main"), (REPO, "nowhere")])
def test_what_the_hub_does_not_have_is_the_users_mistake(
    hub: Hub, fake: FakeHub, base: Path, repo: str, revision: str
) -> None:
    fake.commit(REPO, base)
    with pytest.raises(BadBase) as caught:
        hub.snapshot(repo, revision)
    assert caught.value.where == f"hub:{repo}@{revision}"


def test_a_missing_file_is_the_users_mistake(hub: Hub, fake: FakeHub, base: Path, tmp_path: Path) -> None:
    commit = fake.commit(REPO, base)
    with pytest.raises(BadBase):
        hub.download(REPO, commit, "nothing.json", tmp_path / "nothing.json")
    assert not (tmp_path / "nothing.json").exists()


def test_a_base_is_locked_alike_through_either(hub: Hub, fake: FakeHub, base: Path) -> None:
    fake.commit(REPO, base)
    assert lock_hub(hub, REPO, "main", template_given=False) == lock_hub(fake, REPO, "main", template_given=False)


def test_a_hub_that_cannot_be_reached_may_be_tried_again() -> None:
    with pytest.raises(HubUnavailable, match="Check the network"):
        HuggingFaceHub("http://127.0.0.1:9").snapshot(REPO, "main")


def test_changed_bytes_do_not_verify(fake: FakeHub, base: Path) -> None:
    fake.commit(REPO, base)
    for name, file in fake.snapshot(REPO, "main").files.items():
        (base / name).write_bytes((base / name).read_bytes() + b"?")
        with pytest.raises(BadBase, match=name):
            verify_file(base / name, file, "here")
