"""Dataset versions: numbered, create-only names for uploads. Equal bytes with an equal policy are one version."""

import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ft_assets.control.registry.folders import NAMED
from ft_assets.control.registry.settle import settle
from ft_assets.records.names import DATASET
from ft_assets.records.retired_datasets import find_retired
from ft_assets.records.tombstones import Subject, find_tombstone
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.settings.keys import DatasetKey, check_part, check_tenant
from ft_assets.workers.datasets.intake.kinds import is_markdown, kind_of
from ft_assets.workers.datasets.intake.snapshot import Snapshot, take_snapshots
from ft_assets.workers.datasets.intake.spool import Role, spool
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.canonical import canonical_json, digest
from ft_resources.errors import BadData, UserError
from ft_resources.store import Store

if TYPE_CHECKING:
    from ft_assets.control.registry.precheck import Checked


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetVersion:
    """Result of adding; ``created`` is False if the same bytes and policy were a version already.

    ``warnings`` are sentences about files that are left out of a new version, and about its fields that say something
    and are not used; ``walls`` say what keeps results of any recipe with it out of production.
    """

    key: DatasetKey
    address: Address
    created: bool
    warnings: tuple[str, ...] = ()
    walls: tuple[str, ...] = ()


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
    source: str = "",
) -> DatasetVersion:
    """Store ``files`` untouched, with their policy, as the next version of ``tenant.name``.

    ``validation`` and ``holdout`` are files of rows that the tenant sets aside. The rows of several files are
    concatenated in the order of file names. ``max_examples`` limits the total number of rows; None: no limit.
    ``source`` says, for people, where they were pulled from.
    Everything is checked before anything is written: a refused upload leaves the store unchanged.

    Raises:
        BadData: a file, or one of its rows, cannot be used (file, row, field and remedy are named).
        UserError: ``tenant`` or ``name`` cannot be part of a key.
        StoreUnavailable: the store refused; no version was created.
    """
    first = DatasetKey.parse(f"{check_tenant(tenant)}.{check_part(name, 'dataset name')}.v1")
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
        checked = _check_rows(uploads, policy, Path(scratch))
        rows = checked.rows
        if max_examples is not None and rows > max_examples:
            raise BadData(
                f"{rows:,} examples are more than the {max_examples:,} that {tenant} may have in one dataset version",
                where=f"{tenant}.{name}",
                remedy="Upload fewer examples, or have the tenant moved to a larger tier in tenants.yaml.",
            )
        facts = {"rows": rows, **({"source": source} if source else {})}
        artifact = _publish(store, folder, tenant, uploads, settled, facts, actor)
    return replace(_claim(store, first, artifact, content, actor), warnings=(*_copies(uploads), *checked.warnings))


def _copies(uploads: list[Snapshot]) -> list[str]:
    """A sentence about the files that are left out, since others hold the same bytes; none if there are none."""
    named = [f"{copy} (as {upload.given})" for upload in uploads for copy in upload.copies]
    if not named:
        return []
    which = f"{', '.join(named[:NAMED])}{', …' if len(named) > NAMED else ''}"
    if len(named) == 1:
        return [f"1 file that holds the same bytes as another is left out: {which}"]
    return [f"{len(named):,} files that hold the same bytes as others are left out: {which}"]


def _content(uploads: list[Snapshot], policy: DatasetPolicy) -> str:
    """Identifies a version: digest of the policy as written, and of each role's files by bytes and format, whatever
    their names. So the same upload stays the same version when the platform gets more suites, and JSON lines uploaded
    as plain text, or plain text as Markdown, are a different version."""
    shas: dict[str, list[str]] = {}
    for upload in uploads:
        role = "files" if upload.role == "upload" else upload.role
        form = "md" if is_markdown(upload.given) else kind_of(upload.given).format
        shas.setdefault(role, []).append(f"{upload.sha256}.{form}")
    return digest({**{role: sorted(files) for role, files in shas.items()}, "policy": policy.model_dump(mode="json")})


def _check_rows(uploads: list[Snapshot], policy: DatasetPolicy, scratch: Path) -> "Checked":
    """What the rows of the uploads are like. Raises BadData if their rows cannot be used or are too few.

    Checks across all rows (near-duplicates, contamination, the split) are left to the asset.
    """
    # Its kernels take a second to import; callers that only read names should not wait for that.
    from ft_assets.control.registry.rows_apart import check_rows

    spools = [
        spool(upload.path, upload.given, scratch / "spool", role=upload.role, text=policy.text, sha256=upload.sha256)
        for upload in uploads
    ]
    return check_rows(spools, policy)


def list_versions(store: Store, tenant: str, name: str) -> list[DatasetKey]:
    """The versions of ``tenant.name`` in order, empty if it was never added."""
    start = f"{tenant}.{name}.v"
    keys = (DatasetKey.parse(text) for text in DATASET.keys(store) if text.startswith(start))
    return sorted(keys, key=lambda key: key.version)


def latest_version(store: Store, tenant: str, name: str) -> DatasetKey | None:
    """The highest version of ``tenant.name``, for people and sensors; never a way to choose an input."""
    versions = list_versions(store, tenant, name)
    return versions[-1] if versions else None


def latest_versions(store: Store) -> dict[tuple[str, str], DatasetKey]:
    """The highest version of every dataset by tenant and name, from one listing; invalid keys are left out."""
    latest: dict[tuple[str, str], DatasetKey] = {}
    for text in DATASET.keys(store):
        key = _key_of(text)
        if key is not None:
            held = latest.get((key.tenant, key.name))
            if held is None or held.version < key.version:
                latest[key.tenant, key.name] = key
    return latest


@lru_cache(maxsize=1 << 17)
def _key_of(text: str) -> DatasetKey | None:
    try:
        return DatasetKey.parse(text)
    except UserError:
        return None


def _walk(store: Store, first: DatasetKey, content: str) -> tuple[DatasetKey, Address | None]:
    """The version from ``first`` on that has ``content``, with its address; else the first free key and None.

    Deleted and retired versions are skipped: the same upload then becomes a new version.
    """
    key = first
    while (pointer := DATASET.find(store, str(key))) is not None:
        gone = pointer.get("content") == content and (
            find_tombstone(store, Subject.dataset(key)) or find_retired(store, str(key))
        )
        if pointer.get("content") == content and not gone:
            return key, Address.parse(pointer["address"])
        key = DatasetKey(tenant=key.tenant, name=key.name, version=key.version + 1)
    return key, None


def _claim(store: Store, first: DatasetKey, artifact: Artifact, content: str, actor: str) -> DatasetVersion:
    """Take the next free number.

    A number is only tried after all lower ones were found to hold other content, and after a lost race the same
    number is checked again. So two writers of the same content never both take a number.
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
        if key.version > 1:
            record["follows"] = str(DatasetKey(tenant=key.tenant, name=key.name, version=key.version - 1))
        if DATASET.create(store, str(key), record):
            return DatasetVersion(key=key, address=artifact.address, created=True)


def _publish(
    store: Store,
    folder: Path,
    tenant: str,
    uploads: list[Snapshot],
    policy: DatasetPolicy,
    known: dict[str, Any],
    actor: str,
) -> Artifact:
    """Publish the ``raw_dataset`` artifact of the snapshots in ``folder``, or return the existing one.

    The fact ``names`` maps files to the names that they were given, where the store does not allow those.
    """
    settled = policy.model_dump(mode="json")
    (folder / "policy.json").write_bytes(canonical_json(settled))
    files: dict[str, dict[str, str]] = {}
    for upload in uploads:
        files.setdefault("files" if upload.role == "upload" else upload.role, {})[upload.name] = upload.sha256
    facts = {"files": len(uploads), "bytes": sum(upload.size for upload in uploads), **known}
    given = {f"{upload.role}/{upload.name}": upload.given for upload in uploads if upload.given != upload.name}
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
        facts={**facts, **({"names": given} if given else {})},
        actor=actor,
    )
