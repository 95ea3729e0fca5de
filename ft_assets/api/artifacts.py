"""Artifacts: take adapters home, see what one was made of, and verify its bytes."""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ft_assets.api.addresses import find_address
from ft_assets.api.defaults import store_or_default
from ft_assets.control import identity
from ft_assets.control.erasure.verify_tombstones import tombstone_findings
from ft_assets.control.lines.lines import list_lines
from ft_assets.control.lines.verify import Verified, verify_line
from ft_assets.control.lines.verify import verify as verify_artifacts
from ft_assets.records.erased import find_erased
from ft_assets.settings.ungated import UNGATED, without_gates
from ft_assets.workers.adapters.lineage import Lineage
from ft_assets.workers.adapters.lineage import lineage as read_lineage
from ft_assets.workers.training.data_ledger import Proof, prove
from ft_resources.artifacts import MANIFEST, Address, Artifact, Artifacts
from ft_resources.errors import UserError
from ft_resources.store import Store

# Folders at the store's root that hold records and not artifacts.
_RECORDS = ("names", "open_submissions", "retrainings")


@dataclass(frozen=True, kw_only=True)
class LedgerReport:
    """What a training's ledger shows, and of which checkpoint."""

    checkpoint: Address
    proof: Proof


def list_adapters(*, tenant: str = "", store: Store | None = None) -> list[Artifact]:
    """The accepted adapters of one tenant, or of all, oldest first."""
    store = store_or_default(store)
    artifacts = Artifacts(store)
    found = []
    for name in [tenant] if tenant else store.folders():
        for fingerprint in store.folders(f"{name}/adapter"):
            artifact = artifacts.find(Address(tenant=name, asset="adapter", fingerprint=fingerprint))
            if artifact is not None and not without_gates(artifact.manifest.identity["params"]):
                found.append(artifact)
    return sorted(found, key=lambda artifact: artifact.manifest.created_at)


def find_adapter(source: str, *, store: Store | None = None) -> Artifact:
    """The adapter at an address, or the last one of a line; an ungated result only by its address. Raises UserError if
    there is no such adapter."""
    store = store_or_default(store)
    if "/" not in source:
        of_line = [
            artifact
            for artifact in list_adapters(tenant=source.partition(".")[0], store=store)
            if artifact.facts["line"] == source
        ]
        if not of_line:
            raise UserError(
                f"line {source!r} has no accepted adapter yet",
                where="line",
                remedy="List the accepted adapters: ft adapter list",
            )
        return of_line[-1]
    artifact = Artifacts(store).get(find_address(source, store=store))
    if artifact.address.asset not in ("adapter", UNGATED):
        raise UserError(
            f"this is a {artifact.address.asset}, not an adapter",
            where=source,
            remedy="Name an adapter: only adapters have passed the gates.",
        )
    return artifact


def download_adapter(source: str, target: Path | str, *, store: Store | None = None) -> Artifact:
    """Copy an adapter to a folder that does not exist yet, every byte verified, all or nothing.

    ``source`` is an address or a line. Raises UserError where there is no such adapter, and where the folder exists or
    cannot be written; CorruptArtifact for changed bytes.
    """
    artifact = find_adapter(source, store=store)
    _download(artifact, Path(target))
    return artifact


def download_base(source: str, target: Path | str, *, store: Store | None = None) -> Artifact:
    """The same for the base model that an adapter stands on."""
    store = store_or_default(store)
    adapter = find_adapter(source, store=store)
    artifact = Artifacts(store).get(Address.parse(adapter.manifest.inputs["base"].address))
    _download(artifact, Path(target))
    return artifact


def lineage(address: str, *, store: Store | None = None) -> Lineage:
    """What an artifact was made of, down to the uploaded bytes. Raises UserError for what is not in the store."""
    store = store_or_default(store)
    return read_lineage(Artifacts(store), find_address(address, store=store))


def verify(target: str = "", *, everything: bool = False, store: Store | None = None) -> Verified:
    """Recompute every hash of a line or of an artifact, down to the raw bytes and the base; or ``everything``.

    Returns what was looked at, and findings: none where nothing has changed. Raises UserError for an unknown target,
    and where none or both are given.
    """
    if bool(target) == everything:
        raise UserError("nothing to verify is named", where="ft verify", remedy="Give one LINE or ADDRESS, or --all.")
    store = store_or_default(store)
    artifacts = Artifacts(store)
    if everything:
        results = [verify_artifacts(artifacts, *_addresses(store))]
        results += [verify_line(artifacts, line) for line in list_lines(store)]
        results.append(Verified(looked_at=(), findings=tuple(tombstone_findings(store)), erased=()))
    elif "/" in target:
        results = [verify_artifacts(artifacts, _present(artifacts, find_address(target, store=store)))]
    else:
        results = [verify_line(artifacts, target)]
    return Verified(
        looked_at=tuple(dict.fromkeys(each for result in results for each in result.looked_at)),
        findings=tuple(dict.fromkeys(each for result in results for each in result.findings)),
        erased=tuple(dict.fromkeys(each for result in results for each in result.erased)),
    )


def prove_ledger(dataset: str, recipe: str, *, store: Store | None = None) -> LedgerReport:
    """Whether a training read every example exactly once per epoch; the proof's findings say where it did not.

    Raises MissingInput where the pair was not trained, CorruptArtifact for damaged records.
    """
    artifacts = Artifacts(store_or_default(store))
    checkpoint = identity.checkpoint(artifacts, dataset, recipe)
    with tempfile.TemporaryDirectory(prefix="ft-ledger-") as scratch:
        return LedgerReport(checkpoint=checkpoint.address, proof=prove(artifacts, checkpoint, Path(scratch)))


def _download(artifact: Artifact, target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise UserError("this path exists already", where=str(target), remedy="Name a folder that does not exist yet.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside the target, so that it is on the same disk and one rename makes it appear.
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
            whole = Path(scratch) / "whole"
            for name in artifact.manifest.files:
                verified = artifact.path(name, Path(scratch) / "fetched")
                copy = whole / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(verified, copy)
            whole.rename(target)
    except OSError as error:
        raise UserError(
            f"the folder cannot be written ({error.strerror or error})",
            where=str(target),
            remedy="Name a folder that you may write to, on a disk with room. Nothing half-written was left behind.",
        ) from error


def _present(artifacts: Artifacts, address: Address) -> Address:
    """The address itself. Raises UserError where nothing is there, and nothing was erased."""
    if not artifacts.store.exists(f"{address}/{MANIFEST}") and find_erased(artifacts.store, address) is None:
        artifacts.get(address)
    return address


def _addresses(store: Store) -> Iterator[Address]:
    """Every artifact of the store: each folder with a manifest."""
    for tenant in store.folders():
        if tenant in _RECORDS:
            continue
        for asset in store.folders(tenant):
            for fingerprint in store.folders(f"{tenant}/{asset}"):
                address = Address(tenant=tenant, asset=asset, fingerprint=fingerprint)
                if store.exists(f"{address}/{MANIFEST}"):
                    yield address
