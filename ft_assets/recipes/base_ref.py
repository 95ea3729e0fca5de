"""How a recipe names its base model: a folder, the digest of one already stored, or a Hub revision."""

import re
from dataclasses import dataclass
from pathlib import Path

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_REPO = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_REVISION = re.compile(r"[A-Za-z0-9][\w./-]{0,199}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderPath:
    """``folder:./base``: a local folder; registration uploads it and rewrites the reference to its digest."""

    path: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderDigest:
    """``folder:sha256:<digest>``: a folder that an earlier registration uploaded (64 hex characters)."""

    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HubRevision:
    """``hub:org/name@revision``: a model repository and a commit, tag or branch of it, locked at registration."""

    repo: str
    revision: str


BaseReference = FolderPath | FolderDigest | HubRevision


def parse_base(text: str) -> BaseReference:
    """The reference in ``text``. Raises ValueError with a sentence for anything else."""
    kind, _, rest = text.partition(":")
    if not rest.isprintable():
        raise ValueError("holds a character that cannot be seen, such as a line break")
    if kind == "artifact":
        raise ValueError("artifact:<address> bases are not supported yet; use folder: or hub:")
    if kind == "hub" and rest:
        return _parse_hub(rest)
    if kind == "folder" and rest.startswith("sha256:"):
        if not _DIGEST.fullmatch(rest):
            raise ValueError("a folder digest is sha256: and 64 lower-case hexadecimal characters")
        return FolderDigest(digest=rest.removeprefix("sha256:"))
    if kind == "folder" and rest:
        return FolderPath(path=Path(rest))
    raise ValueError("should be folder:PATH, folder:sha256:DIGEST or hub:ORG/NAME@REVISION")


def _parse_hub(text: str) -> HubRevision:
    repo, _, revision = text.partition("@")
    if not revision:
        raise ValueError(f"a Hub base names its revision, such as hub:{repo}@main; it is locked at registration")
    if not _REPO.fullmatch(repo) or not _REVISION.fullmatch(revision) or ".." in text:
        raise ValueError("should be hub:ORG/NAME@REVISION, as the Hub writes them")
    return HubRevision(repo=repo, revision=revision)
