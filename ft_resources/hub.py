"""The hub of models and data sets: which commit a revision is, which files it has, and their bytes, verified."""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from ft_resources.canonical import sha256_file
from ft_resources.errors import BadBase, StoreUnavailable

_CHUNK = 1 << 20


class HubUnavailable(StoreUnavailable):
    """The hub cannot be reached or answers with an error; trying later may help."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HubFile:
    """One file of a commit: bytes, git blob id (SHA-1), and the sha256 that large (LFS) files have."""

    name: str
    size: int
    blob_id: str
    sha256: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class HubSnapshot:
    """A repository at one commit (40 hex characters), which never moves."""

    repo: str
    commit: str
    files: dict[str, HubFile]


class Hub(Protocol):
    """Where models and data sets come from."""

    def snapshot(self, repo: str, revision: str) -> HubSnapshot:
        """``revision`` (commit, tag or branch) as a commit with its files. Raises BadBase, HubUnavailable."""

    def download(self, repo: str, commit: str, name: str, target: Path) -> None:
        """Put file ``name`` of ``commit`` at ``target``. Raises BadBase where there is none, HubUnavailable."""


class HuggingFaceHub:
    """The Hugging Face Hub, or a mirror that speaks its protocol.

    Args:
        endpoint: base URL; None takes ``HF_ENDPOINT``, else the public hub. Credentials come from ``HF_TOKEN``.
        kind: whether repositories are models or data sets.
    """

    def __init__(self, endpoint: str | None = None, kind: Literal["model", "dataset"] = "model") -> None:
        self.endpoint, self.kind = endpoint, kind

    def snapshot(self, repo: str, revision: str) -> HubSnapshot:
        from huggingface_hub import HfApi

        api = HfApi(endpoint=self.endpoint)
        ask = api.model_info if self.kind == "model" else api.dataset_info
        with _explained(repo, revision, self.kind):
            info: Any = ask(repo, revision=revision, files_metadata=True)
        files = {
            sibling.rfilename: HubFile(
                name=sibling.rfilename,
                size=sibling.size or 0,
                blob_id=sibling.blob_id or "",
                sha256=sibling.lfs.sha256 if sibling.lfs else None,
            )
            for sibling in info.siblings or []
        }
        if info.sha is None:
            raise HubUnavailable("the hub did not say which commit this is", where=f"hub:{repo}@{revision}")
        return HubSnapshot(repo=repo, commit=info.sha, files=files)

    def download(self, repo: str, commit: str, name: str, target: Path) -> None:
        from huggingface_hub import HfApi

        target.parent.mkdir(parents=True, exist_ok=True)
        # The library keeps books beside what it downloads; they stay out of the folder that gets published.
        with (
            tempfile.TemporaryDirectory(dir=target.parent, prefix=".hub-") as folder,
            _explained(repo, commit, self.kind),
        ):
            api = HfApi(endpoint=self.endpoint)
            found = api.hf_hub_download(repo, name, repo_type=self.kind, revision=commit, local_dir=folder)
            shutil.move(found, target)


def verify_file(path: Path, file: HubFile, where: str) -> None:
    """Raises BadBase where the bytes at ``path`` are not those the hub listed."""
    expected = file.sha256 or file.blob_id
    found = sha256_file(path) if file.sha256 else git_blob_id(path)
    if found != expected:
        raise BadBase(
            f"{file.name} does not match the {'sha256' if file.sha256 else 'git blob id'} that the hub lists",
            where=where,
            remedy="The file was changed on its way or at its source: try again, and do not use it if it persists.",
        )


def git_blob_id(path: Path) -> str:
    """What git calls a file's content: SHA-1 over ``blob <size>\\0`` and the bytes, 40 hex characters."""
    hasher = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            hasher.update(chunk)
    return hasher.hexdigest()


@contextmanager
def _explained(repo: str, revision: str, kind: str) -> Iterator[None]:
    """Turn the library's errors into ours: what the user can put right, and what may pass by itself."""
    from huggingface_hub import errors

    where = f"hub:{repo}@{revision}"
    try:
        yield
    except errors.GatedRepoError as error:
        remedy = f"Accept the {kind}'s terms on its page, and set HF_TOKEN to a token of that account."
        raise BadBase(f"this {kind} is gated and the token in use has no access", where=where, remedy=remedy) from error
    except errors.RepositoryNotFoundError as error:
        remedy = f"Check the spelling; for a private {kind} set HF_TOKEN."
        raise BadBase(f"the hub has no such {kind}, or it is private", where=where, remedy=remedy) from error
    except errors.RevisionNotFoundError as error:
        remedy = f"Name a commit, tag or branch that the {kind}'s page lists."
        raise BadBase(f"the {kind} has no such revision", where=where, remedy=remedy) from error
    except (errors.EntryNotFoundError, errors.HFValidationError) as error:
        # A network failure during a download is a LocalEntryNotFoundError, though nothing is known to be missing.
        if isinstance(error, errors.LocalEntryNotFoundError):
            raise _unavailable(error, where) from error
        remedy = f"Check the reference against the {kind}'s page."
        raise BadBase(f"the hub does not have this ({_first_line(error)})", where=where, remedy=remedy) from error
    except (errors.HTTPError, OSError) as error:
        raise _unavailable(error, where) from error


def _unavailable(error: Exception, where: str) -> HubUnavailable:
    remedy = "Check the network and HF_ENDPOINT and try again; what lies in a folder needs no network."
    return HubUnavailable(f"the hub cannot be used ({_first_line(error)})", where=where, remedy=remedy)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
