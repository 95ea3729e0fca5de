"""Dataset versions: numbered, create-only names for uploads. Equal bytes with an equal policy are one version."""

import hashlib
import os
import re
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ft_assets.datasets.pipeline import check_file
from ft_assets.datasets.policy import DatasetPolicy
from ft_assets.datasets.report import Upload
from ft_assets.identity import CODE_VERSIONS
from ft_assets.keys import DatasetKey, check_part
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.canonical import canonical_json, digest
from ft_resources.errors import BadData
from ft_resources.store import Store

_NAMES = "names/dataset"
# A subset of what the store allows in a path, short enough for every file system.
_FILE_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9._+=@-]{0,119}$")
_CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetVersion:
    """What adding gave; ``created`` is False where the same bytes and policy were a version already."""

    key: DatasetKey
    address: Address
    created: bool


def add_dataset_version(
    store: Store, file: Path, *, tenant: str, name: str, policy: DatasetPolicy, actor: str
) -> DatasetVersion:
    """Store ``file`` untouched, with its policy, as the next version of ``tenant.name``.

    Everything is checked before anything is written: a refused upload leaves the store as it was.

    Raises:
        BadData: the file, or one of its rows, cannot be used (file, row, field and remedy are named).
        UserError: ``tenant`` or ``name`` cannot be part of a key.
        StoreUnavailable: the store refused; no version was made.
    """
    first = DatasetKey.parse(f"{check_part(tenant, 'tenant')}.{check_part(name, 'dataset name')}.v1")
    with tempfile.TemporaryDirectory(prefix="ft-upload-") as scratch:
        folder = Path(scratch)
        upload = _snapshot(file, folder / "upload")
        content = digest({"files": [upload.sha256], "policy": policy.model_dump(mode="json")})
        key, found = _walk(store, first, content)
        if found is not None:
            return DatasetVersion(key=key, address=found, created=False)
        report = check_file(folder / "upload" / upload.name, upload, policy)
        artifact = _publish(store, folder, tenant, upload, policy, report.rows_read, actor)
    return _claim(store, first, artifact, content, actor)


def list_versions(store: Store, tenant: str, name: str) -> list[DatasetKey]:
    """The versions of ``tenant.name`` in order, none where it was never added."""
    start = f"{tenant}.{name}.v"
    names = (entry.path.rsplit("/", 1)[-1].removesuffix(".json") for entry in store.entries(_NAMES))
    return sorted((DatasetKey.parse(text) for text in names if text.startswith(start)), key=lambda key: key.version)


def latest_version(store: Store, tenant: str, name: str) -> DatasetKey | None:
    """The highest version of ``tenant.name``, for people and sensors; never a way to choose an input."""
    versions = list_versions(store, tenant, name)
    return versions[-1] if versions else None


def _walk(store: Store, first: DatasetKey, content: str) -> tuple[DatasetKey, Address | None]:
    """The version from ``first`` on that has ``content``, with its address; else the first free key and None."""
    key = first
    while (pointer := store.find_json(f"{_NAMES}/{key}.json")) is not None:
        if pointer.get("content") == content:
            return key, Address.parse(pointer["address"])
        key = DatasetKey(tenant=key.tenant, name=key.name, version=key.version + 1)
    return key, None


def _claim(store: Store, first: DatasetKey, artifact: Artifact, content: str, actor: str) -> DatasetVersion:
    """Take the next free number.

    A number is only tried after every lower one was seen to hold other content, and after a lost race the same
    number is looked at again. So two writers of one content can never both take a number.
    """
    record = {
        "address": str(artifact.address),
        "digest": artifact.digest,
        "content": content,
        "actor": actor,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    while True:
        key, found = _walk(store, first, content)
        if found is not None:
            return DatasetVersion(key=key, address=found, created=False)
        if store.create_json(f"{_NAMES}/{key}.json", record):
            return DatasetVersion(key=key, address=artifact.address, created=True)


def _publish(
    store: Store, folder: Path, tenant: str, upload: Upload, policy: DatasetPolicy, rows: int, actor: str
) -> Artifact:
    """The ``raw_dataset`` artifact of the snapshot in ``folder``; the one that is there, if these bytes are known."""
    settled = policy.model_dump(mode="json")
    (folder / "policy.json").write_bytes(canonical_json(settled))
    identity = {
        "asset": "raw_dataset",
        "code_version": CODE_VERSIONS["raw_dataset"],
        "inputs": {},
        "params": {"files": {upload.name: upload.sha256}, "policy": settled},
    }
    return Artifacts(store).publish(
        Address(tenant=tenant, asset="raw_dataset", fingerprint=digest(identity)),
        folder,
        writer=f"upload-{uuid.uuid4().hex[:8]}",
        identity=identity,
        facts={"files": 1, "bytes": upload.size, "rows": rows},
        actor=actor,
    )


def _snapshot(file: Path, folder: Path) -> Upload:
    """Copy ``file`` into ``folder``, so that what is checked is what is stored, whoever writes to it meanwhile."""
    name = file.name
    if not _FILE_NAME.match(name):
        raise BadData(
            f"{name!r} cannot be a file name in the store",
            where="file name",
            remedy="Rename it: at most 120 letters, digits and . _ - + = @, and no dot or hyphen in front.",
        )
    folder.mkdir()
    hasher, size = hashlib.sha256(), 0
    with _open(file) as descriptor, (folder / name).open("wb") as copy:
        before = os.fstat(descriptor)
        while chunk := os.read(descriptor, _CHUNK):
            hasher.update(chunk)
            copy.write(chunk)
            size += len(chunk)
        after = os.fstat(descriptor)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or size != after.st_size:
        raise BadData(
            "the file changed while it was being read",
            where=name,
            remedy="Wait until it is written, then add it again.",
        )
    if not size:
        raise BadData("the file is empty (0 bytes)", where=name, remedy="Upload a file with examples in it.")
    return Upload(name=name, size=size, sha256=hasher.hexdigest())


@contextmanager
def _open(file: Path) -> Iterator[int]:
    """A descriptor of the regular file ``file``, which is not followed where it is a link."""
    name = file.name
    try:
        # Without O_NONBLOCK, opening a named pipe would wait for a writer for ever.
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise BadData("there is no such file", where=str(file), remedy="Check the path.") from None
    except OSError as error:
        if file.is_symlink():
            what, remedy = "this is a symbolic link", "Give the path of the file itself."
        else:
            what, remedy = f"the file cannot be opened ({error.strerror})", "Check the path and its permissions."
        raise BadData(what, where=name, remedy=remedy) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadData("this is not a regular file", where=name, remedy="Give the path of a JSON lines file.")
        yield descriptor
    finally:
        os.close(descriptor)
