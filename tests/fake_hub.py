"""A hub in memory: repositories with branches that can move, and files that can be tampered with."""

import hashlib
from pathlib import Path

from ft_resources.canonical import digest, sha256_bytes
from ft_resources.errors import BadBase
from ft_resources.hub import HubFile, HubSnapshot


class FakeHub:
    """Keeps the promises of ``ft_resources.hub.Hub``. Safetensors files are large files with a sha256."""

    def __init__(self) -> None:
        self.branches: dict[tuple[str, str], str] = {}
        self.commits: dict[tuple[str, str], dict[str, bytes]] = {}
        self.downloads: list[str] = []

    def commit(self, repo: str, folder: Path, branch: str = "main") -> str:
        """Make ``folder`` the newest commit of ``branch``; the commit's id."""
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
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
            raise BadBase("the hub has no such model or revision", where=f"hub:{repo}@{revision}")
        files = {name: _describe(name, data) for name, data in self.commits[repo, commit].items()}
        return HubSnapshot(repo=repo, commit=commit, files=files)

    def download(self, repo: str, commit: str, name: str, target: Path) -> None:
        self.downloads.append(name)
        if name not in self.commits[repo, commit]:
            raise BadBase(f"the hub does not have {name}", where=f"hub:{repo}@{commit}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(self.commits[repo, commit][name])


def _describe(name: str, data: bytes) -> HubFile:
    blob_id = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    large = name.endswith(".safetensors")
    return HubFile(name=name, size=len(data), blob_id=blob_id, sha256=sha256_bytes(data) if large else None)
