"""A hub in memory, also over HTTP: repositories with branches that can move, and files that can be tampered with."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlparse

from ft_resources.canonical import digest, sha256_bytes
from ft_resources.errors import BadBase
from ft_resources.hub import Hub, HubFile, HubSnapshot, HuggingFaceHub


class FakeHub:
    """Keeps the promises of ``ft_resources.hub.Hub``. Safetensors files are large files with a sha256."""

    def __init__(self) -> None:
        self.branches: dict[tuple[str, str], str] = {}
        self.commits: dict[tuple[str, str], dict[str, bytes]] = {}
        self.downloads: list[str] = []
        # The status and the code of every answer over HTTP, where it refuses.
        self.refusal: tuple[int, str] | None = None

    def commit(self, repo: str, folder: Path, branch: str = "main") -> str:
        """Make ``folder`` the newest commit of ``branch``; the commit's id."""
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        commit = digest({name: sha256_bytes(data) for name, data in files.items()})[:40]
        self.branches[repo, branch] = commit
        self.commits[repo, commit] = files
        return commit

    def tamper(self, repo: str, commit: str, name: str) -> None:
        """Flip a bit of a file that is served, without telling the listing."""
        data = bytearray(self.commits[repo, commit][name])
        data[-1] ^= 1
        self.commits[repo, commit] = {**self.commits[repo, commit], name: bytes(data)}

    def snapshot(self, repo: str, revision: str) -> HubSnapshot:
        commit = self.branches.get((repo, revision), revision)
        if (repo, commit) not in self.commits:
            remedy = "Check the spelling."
            raise BadBase("the hub has no such model or revision", where=f"hub:{repo}@{revision}", remedy=remedy)
        files = {name: _describe(name, data) for name, data in self.commits[repo, commit].items()}
        return HubSnapshot(repo=repo, commit=commit, files=files)

    def download(self, repo: str, commit: str, name: str, target: Path) -> None:
        self.downloads.append(name)
        if name not in self.commits[repo, commit]:
            raise BadBase(f"the hub does not have {name}", where=f"hub:{repo}@{commit}", remedy="Check the spelling.")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(self.commits[repo, commit][name])


def _describe(name: str, data: bytes) -> HubFile:
    blob_id = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    large = name.endswith(".safetensors")
    return HubFile(name=name, size=len(data), blob_id=blob_id, sha256=sha256_bytes(data) if large else None)


@contextmanager
def hub_server(content: FakeHub) -> Iterator[str]:
    """Serve what ``content`` holds, as it changes, in the protocol of the Hugging Face Hub; the endpoint."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"content": content}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def hub_by(way: str, content: FakeHub, kind: Literal["model", "dataset"] = "model") -> Iterator[Hub]:
    """What ``content`` holds, from the "fake" itself or over "http" with the real client: both keep one contract."""
    if way == "fake":
        yield content
        return
    with hub_server(content) as endpoint:
        yield HuggingFaceHub(endpoint, kind=kind)


class _Handler(BaseHTTPRequestHandler):
    """The two routes of the Hugging Face Hub that are needed, over what a FakeHub holds."""

    content: FakeHub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if self.content.refusal:
            return self._answer(self.content.refusal[0], error=self.content.refusal[1])
        parts = unquote(urlparse(self.path).path).strip("/").split("/")
        # Files of data sets have one more part before their names.
        parts = parts[1:] if parts[0] == "datasets" else parts
        if parts[:2] in (["api", "models"], ["api", "datasets"]):
            self._model("/".join(parts[2:4]), "/".join(parts[5:]))
        elif parts[2:3] == ["resolve"]:
            self._file("/".join(parts[:2]), parts[3], "/".join(parts[4:]))
        else:
            self._answer(404)

    def _model(self, repo: str, revision: str) -> None:
        if repo not in {known for known, _ in self.content.commits}:
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
