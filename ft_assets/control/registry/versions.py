"""Dataset versions: numbered, create-only names for uploads. Equal bytes with an equal policy are one version."""

import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from ft_assets.datasets.intake.kinds import kind_of
from ft_assets.datasets.intake.snapshot import Snapshot, take_snapshots
from ft_assets.datasets.intake.spool import Role, spool
from ft_assets.datasets.policy import DatasetPolicy
from ft_assets.datasets.settle import settle
from ft_assets.erasure.tombstones import Subject, find_tombstone
from ft_assets.identity.versions import CODE_VERSIONS
from ft_assets.keys import DatasetKey, check_part
from ft_assets.retention.retired import find_retired
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.canonical import canonical_json, digest
from ft_resources.errors import BadData, UserError
from ft_resources.store import Store

_NAMES = "names/dataset"


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetVersion:
    """What adding gave; ``created`` is False where the same bytes and policy were a version already."""

    key: DatasetKey
    address: Address
    created: bool


def add_dataset_version(
    store: Store,
    files: Path | Sequence[Path],
    *,
    tenant: str,
    name: str,
    policy: DatasetPolicy,
    actor: str,
    validation: Sequence[Path] = (),
    holdout: Sequence[Path] = (),
    max_examples: int | None = None,
) -> DatasetVersion:
    """Store ``files`` untouched, with their policy, as the next version of ``tenant.name``.

    ``validation`` and ``holdout`` are files of rows that the tenant sets aside. The rows of several files follow one
    another in the order of the files' names. ``max_examples`` is how many rows they may have together, None for any
    number. Everything is checked before anything is written: a refused upload leaves the store as it was.

    Raises:
        BadData: a file, or one of its rows, cannot be used (file, row, field and remedy are named).
        UserError: ``tenant`` or ``name`` cannot be part of a key.
        StoreUnavailable: the store refused; no version was made.
    """
    first = DatasetKey.parse(f"{check_part(tenant, 'tenant')}.{check_part(name, 'dataset name')}.v1")
    given: dict[Role, Sequence[Path]] = {
        "upload": [files] if isinstance(files, Path) else files,
        "validation": validation,
        "holdout": holdout,
    }
    if not given["upload"]:
        raise BadData("no file is given", where=f"{tenant}.{name}", remedy="Name at least one file with examples.")
    with tempfile.TemporaryDirectory(prefix="ft-upload-") as scratch:
        folder = Path(scratch) / "artifact"
        folder.mkdir()
        uploads = take_snapshots(given, folder)
        settled = settle(store, policy, tenant)
        content = _content(uploads, policy)
        key, found = _walk(store, first, content)
        if found is not None:
            return DatasetVersion(key=key, address=found, created=False)
        rows = _check_rows(uploads, policy, Path(scratch))
        if max_examples is not None and rows > max_examples:
            raise BadData(
                f"{rows:,} examples are more than the {max_examples:,} that {tenant} may have in one dataset version",
                where=f"{tenant}.{name}",
                remedy="Upload fewer examples, or have the tenant moved to a larger tier in tenants.yaml.",
            )
        artifact = _publish(store, folder, tenant, uploads, settled, rows, actor)
    return _claim(store, first, artifact, content, actor)


def _content(uploads: list[Snapshot], policy: DatasetPolicy) -> str:
    """What a version is recognised by: the policy as written, and the bytes of the files in each role with the format
    they are read in, whatever else their names say. So the same upload is the same version though the platform has got
    more suites since, and lines of JSON that were once given as plain text are another."""
    shas: dict[str, list[str]] = {}
    for upload in uploads:
        role = "files" if upload.role == "upload" else upload.role
        shas.setdefault(role, []).append(f"{upload.sha256}.{kind_of(upload.name).format}")
    return digest({**{role: sorted(files) for role, files in shas.items()}, "policy": policy.model_dump(mode="json")})


def _check_rows(uploads: list[Snapshot], policy: DatasetPolicy, scratch: Path) -> int:
    """How many rows the uploads have. Raises BadData where their rows cannot be used, or are too few.

    What needs a look at all rows together (near-duplicates, contamination, the split) is left to the asset.
    """
    # The kernels behind it take a second to import, which whoever only looks at names should not wait for.
    from ft_assets.datasets.precheck import check_uploads

    spools = [
        spool(upload.path, upload.name, scratch / "spool", role=upload.role, text=policy.text, sha256=upload.sha256)
        for upload in uploads
    ]
    return check_uploads(spools, policy)


def list_versions(store: Store, tenant: str, name: str) -> list[DatasetKey]:
    """The versions of ``tenant.name`` in order, none where it was never added."""
    start = f"{tenant}.{name}.v"
    names = (text.removesuffix(".json") for text in store.names(_NAMES) if text.startswith(start))
    return sorted((DatasetKey.parse(text) for text in names), key=lambda key: key.version)


def latest_version(store: Store, tenant: str, name: str) -> DatasetKey | None:
    """The highest version of ``tenant.name``, for people and sensors; never a way to choose an input."""
    versions = list_versions(store, tenant, name)
    return versions[-1] if versions else None


def latest_versions(store: Store) -> dict[tuple[str, str], DatasetKey]:
    """The highest version of every dataset by tenant and name, from one listing; what is no key is left out."""
    latest: dict[tuple[str, str], DatasetKey] = {}
    for text in store.names(_NAMES):
        key = _key_of(text)
        if key is not None:
            held = latest.get((key.tenant, key.name))
            if held is None or held.version < key.version:
                latest[key.tenant, key.name] = key
    return latest


@lru_cache(maxsize=1 << 17)
def _key_of(file: str) -> DatasetKey | None:
    try:
        return DatasetKey.parse(file.removesuffix(".json"))
    except UserError:
        return None


def _walk(store: Store, first: DatasetKey, content: str) -> tuple[DatasetKey, Address | None]:
    """The version from ``first`` on that has ``content``, with its address; else the first free key and None.

    A version that was deleted or retired is passed over: the same upload is a new version then.
    """
    key = first
    while (pointer := store.find_json(f"{_NAMES}/{key}.json")) is not None:
        gone = pointer.get("content") == content and (
            find_tombstone(store, Subject.dataset(key)) or find_retired(store, str(key))
        )
        if pointer.get("content") == content and not gone:
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
    store: Store, folder: Path, tenant: str, uploads: list[Snapshot], policy: DatasetPolicy, rows: int, actor: str
) -> Artifact:
    """The ``raw_dataset`` artifact of the snapshots in ``folder``; the one that is there, if these bytes are known."""
    settled = policy.model_dump(mode="json")
    (folder / "policy.json").write_bytes(canonical_json(settled))
    files: dict[str, dict[str, str]] = {}
    for upload in uploads:
        files.setdefault("files" if upload.role == "upload" else upload.role, {})[upload.name] = upload.sha256
    identity = {
        "asset": "raw_dataset",
        "code_version": CODE_VERSIONS["raw_dataset"],
        "inputs": {},
        "params": {**files, "policy": settled},
    }
    return Artifacts(store).publish(
        Address(tenant=tenant, asset="raw_dataset", fingerprint=digest(identity)),
        folder,
        writer=f"upload-{uuid.uuid4().hex[:8]}",
        identity=identity,
        facts={"files": len(uploads), "bytes": sum(upload.size for upload in uploads), "rows": rows},
        actor=actor,
    )
