"""Artifacts: their lineage, and the verification of their bytes."""

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ft_assets.api.defaults import store_or_default, tenants_or_default
from ft_assets.api.own_keys import own_dataset, own_recipe
from ft_assets.api.targets import find_target
from ft_assets.control import identity
from ft_assets.control.erasure.verify_tombstones import tombstone_findings
from ft_assets.control.lines.lines import list_lines
from ft_assets.control.lines.verify import Verified, verify_line
from ft_assets.control.lines.verify import verify as verify_artifacts
from ft_assets.control.lines.verify_parity import parity_findings
from ft_assets.control.parity.verify import store_findings
from ft_assets.control.rollouts.rollouts import lines_with_rollouts
from ft_assets.control.rollouts.verify import rollout_findings
from ft_assets.records.erased import find_erased
from ft_assets.settings.servers import ServersFile, load_servers
from ft_assets.settings.tenants import TenantsFile
from ft_assets.workers.adapters.lineage import Lineage
from ft_assets.workers.adapters.lineage import lineage as read_lineage
from ft_assets.workers.training.data_ledger import Proof, prove
from ft_assets.workers.training.earlier import earlier_checkpoints
from ft_resources.artifacts import MANIFEST, Address, Artifacts
from ft_resources.errors import UserError
from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True)
class LedgerReport:
    """What a training's ledger proves, and for which checkpoint.

    ``earlier`` are the trainings that it continues, the last one first: their own ledgers say what they read.
    """

    checkpoint: Address
    proof: Proof
    earlier: tuple[Address, ...] = ()


def lineage(target: str, *, store: Store | None = None) -> Lineage:
    """What an artifact was made of, down to the uploaded bytes. ``target`` is what ``find_target`` takes.

    Raises UserError for what is not in the store.
    """
    store = store_or_default(store)
    return read_lineage(Artifacts(store), find_target(target, store=store))


def verify(
    target: str = "",
    *,
    everything: bool = False,
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    servers: ServersFile | None = None,
) -> Verified:
    """Recompute every hash of a line or of an artifact, down to the raw bytes and the base; or ``everything``.

    ``target`` is what ``find_target`` takes. For a line, all promotions, the logs of promotions and rollouts, and the
    parity checks are verified; where ``tenants`` demands a proof of parity, the adapter in production must have one on
    each of ``servers`` (None: those of ``load_servers``).

    Returns what was checked, and the findings: none if nothing has changed and no proof is missing. Raises UserError
    for an unknown target, and unless exactly one of the two is given.
    """
    if bool(target) == everything:
        raise UserError("no artifact is named", where="ft verify", remedy="Name one artifact, or give --all.")
    store = store_or_default(store)
    artifacts = Artifacts(store)
    if everything:
        results = [verify_artifacts(artifacts, *_addresses(store))]
        results += [verify_line(artifacts, line) for line in list_lines(store)]
        results += [_told(rollout_findings(artifacts, line)) for line in lines_with_rollouts(store)]
        results += [_told(_parity_findings(artifacts, line, tenants, servers)) for line in list_lines(store)]
        results += [_told(store_findings(store)), _told(tombstone_findings(store))]
    elif target in list_lines(store):
        results = [verify_line(artifacts, target), _told(rollout_findings(artifacts, target))]
        results.append(_told(_parity_findings(artifacts, target, tenants, servers)))
    else:
        results = [verify_artifacts(artifacts, _present(artifacts, find_target(target, store=store)))]
    return Verified(
        looked_at=tuple(dict.fromkeys(each for result in results for each in result.looked_at)),
        findings=tuple(dict.fromkeys(each for result in results for each in result.findings)),
        erased=tuple(dict.fromkeys(each for result in results for each in result.erased)),
    )


def _told(findings: Iterable[str]) -> Verified:
    return Verified(looked_at=(), findings=tuple(findings), erased=())


def _parity_findings(
    artifacts: Artifacts, line: str, tenants: TenantsFile | None, servers: ServersFile | None
) -> Iterator[str]:
    demanded = tenants_or_default(tenants).parity_of(line)
    asked = (load_servers() if servers is None else servers) if demanded else None
    return parity_findings(artifacts, line, servers=asked)


def prove_ledger(dataset: str, recipe: str, *, store: Store | None = None) -> LedgerReport:
    """Whether a training read every example exactly once per epoch; the proof's findings say where it did not.

    Raises MissingInput where the pair was not trained, CorruptArtifact for damaged records.
    """
    artifacts = Artifacts(store_or_default(store))
    checkpoint = identity.checkpoint(artifacts, own_dataset(dataset), own_recipe(artifacts.store, recipe))
    with tempfile.TemporaryDirectory(prefix="ft-ledger-") as scratch:
        proof = prove(artifacts, checkpoint, Path(scratch))
    earlier = tuple(map(Address.parse, earlier_checkpoints(artifacts, checkpoint.address)))
    return LedgerReport(checkpoint=checkpoint.address, proof=proof, earlier=earlier)


def _present(artifacts: Artifacts, address: Address) -> Address:
    """The address itself. Raises UserError where nothing is there, and nothing was erased."""
    if not artifacts.store.exists(f"{address}/{MANIFEST}") and find_erased(artifacts.store, address) is None:
        artifacts.get(address)
    return address


def _addresses(store: Store) -> Iterator[Address]:
    """Every artifact of the store: each folder with a manifest."""
    for tenant in store.tenants():
        for asset in store.folders(tenant):
            for fingerprint in store.folders(f"{tenant}/{asset}"):
                address = Address(tenant=tenant, asset=asset, fingerprint=fingerprint)
                if store.exists(f"{address}/{MANIFEST}"):
                    yield address
