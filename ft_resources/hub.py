"""The hub of models and data sets: the commit of a revision, its files, and their verified bytes."""

import errno
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from ft_resources.canonical import sha256_file
from ft_resources.errors import BadBase, StoreUnavailable, first_line


class HubUnavailable(StoreUnavailable):
    """The hub is unreachable or answers with an error; retrying later may help."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HubFile:
    """One file of a commit: size in bytes, git blob id (SHA-1), and for large (LFS) files the sha256."""

    name: str
    size: int
    blob_id: str
    sha256: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class HubSnapshot:
    """A repository at a fixed commit (40 hex characters)."""

    repo: str
    commit: str
    files: dict[str, HubFile]


class Hub(Protocol):
    """A source of models and data sets."""

    def snapshot(self, repo: str, revision: str) -> HubSnapshot:
        """``revision`` (commit, tag or branch) as a commit with its files. Raises BadBase, HubUnavailable."""

    def download(self, repo: str, commit: str, name: str, target: Path) -> None:
        """Download file ``name`` of ``commit`` to ``target``. Raises BadBase if there is none, HubUnavailable."""


class HuggingFaceHub:
    """The Hugging Face Hub, or a mirror with the same protocol.

    Args:
        endpoint: base URL; None takes ``HF_ENDPOINT``, else the public hub. Credentials come from ``HF_TOKEN``.
        kind: whether repositories are models or data sets.
        token: False: without credentials.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        kind: Literal["model", "dataset"] = "model",
        token: Literal[False] | None = None,
    ) -> None:
        self.endpoint, self.kind, self.token = endpoint, kind, token

    def snapshot(self, repo: str, revision: str) -> HubSnapshot:
        from huggingface_hub import HfApi

        api = HfApi(endpoint=self.endpoint, token=self.token)
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
            where = f"hub:{repo}@{revision}"
            raise HubUnavailable("the hub did not say which commit this is", where=where, remedy=_NETWORK)
        return HubSnapshot(repo=repo, commit=info.sha, files=files)

    def download(self, repo: str, commit: str, name: str, target: Path) -> None:
        from huggingface_hub import HfApi

        target.parent.mkdir(parents=True, exist_ok=True)
        # The library writes metadata next to its downloads; keep it out of the published folder.
        with (
            tempfile.TemporaryDirectory(dir=target.parent, prefix=".hub-") as folder,
            _explained(repo, commit, self.kind),
        ):
            api = HfApi(endpoint=self.endpoint, token=self.token)
            found = api.hf_hub_download(repo, name, repo_type=self.kind, revision=commit, local_dir=folder)
            shutil.move(found, target)


def verify_file(path: Path, file: HubFile, where: str) -> None:
    """Raise BadBase if the bytes at ``path`` are not those the hub listed."""
    expected = file.sha256 or file.blob_id
    found = sha256_file(path) if file.sha256 else git_blob_id(path)
    if found != expected:
        raise BadBase(
            f"{file.name} does not match the {'sha256' if file.sha256 else 'git blob id'} that the hub lists",
            where=where,
            remedy="The file was changed in transit or at its source: try again, and do not use it if this persists.",
        )


def git_blob_id(path: Path) -> str:
    """Git's blob id of a file: SHA-1 over ``blob <size>\\0`` and the bytes, 40 hex characters."""
    hasher = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hasher).hexdigest()


@contextmanager
def _explained(repo: str, revision: str, kind: str) -> Iterator[None]:
    """Turn the library's errors into ours: either the user can fix it, or it may be temporary."""
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
        # The library raises LocalEntryNotFoundError for a network failure, which does not mean the file is missing.
        if isinstance(error, errors.LocalEntryNotFoundError):
            raise _unavailable(error, where) from error
        remedy = f"Check the reference against the {kind}'s page."
        raise BadBase(f"the hub does not have this ({first_line(error)})", where=where, remedy=remedy) from error
    except errors.DisabledRepoError as error:
        remedy = f"Use another {kind}; this one's page may say why."
        raise BadBase(f"the hub has disabled this {kind}", where=where, remedy=remedy) from error
    except (errors.HTTPError, errors.XetDownloadError, OSError) as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status in _REFUSALS:
            what, remedy = _REFUSALS[status]
            raise BadBase(f"{what} ({status})", where=where, remedy=remedy) from error
        if status == 429:
            remedy = "Wait some minutes, then try again. With HF_TOKEN set it answers more often."
            raise HubUnavailable("the hub asks for fewer requests (429)", where=where, remedy=remedy) from error
        if getattr(error, "errno", None) in _OF_THE_DISK:
            remedy = "Free some space, or mend the permissions of the folder that files are fetched to (TMPDIR)."
            raise StoreUnavailable(
                f"the file cannot be kept ({first_line(error)})", where=where, remedy=remedy
            ) from error
        raise _unavailable(error, where) from error


_NETWORK = "Check the network and HF_ENDPOINT and try again; a local folder needs no network."
# What another try would be answered too, https://huggingface.co/docs/hub/security-tokens.
_REFUSALS = {
    400: ("the hub does not take this request", "Check the reference, and that HF_ENDPOINT is a hub."),
    401: ("the hub does not know the token in use", "Set HF_TOKEN to a valid one; what is public needs none."),
    403: (
        "the token in use may not read this",
        "Give it the right to read this repository, or set HF_TOKEN to another.",
    ),
    404: ("the hub has nothing at this address", "Check the reference, and that HF_ENDPOINT is a hub."),
    410: ("the hub has this no more", "Use another."),
    451: ("the hub may not give this out here", "Use another, or a local folder."),
}
_OF_THE_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}


def _unavailable(error: Exception, where: str) -> HubUnavailable:
    return HubUnavailable(f"the hub cannot be used ({first_line(error)})", where=where, remedy=_NETWORK)
