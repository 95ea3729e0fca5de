"""Parity proofs of the servers that answer for an adapter now, and what production demands."""

from dataclasses import dataclass

from ft_assets.control.parity.records import ParityRecord, last_parity
from ft_assets.control.parity.servers import settings_by_server
from ft_assets.settings.servers import ServersFile
from ft_assets.workers.serving.parity.settings import ServerSettings
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Proof:
    """One server of an adapter's base, and the last check of the adapter with the server's present settings.

    Args:
        settings: None if ``servers.yaml`` does not give them.
        record: None if the adapter was not checked with them.
    """

    server: str
    settings: ServerSettings | None
    record: ParityRecord | None

    @property
    def proved(self) -> bool:
        return self.record is not None and self.record.report.proved

    @property
    def sentence(self) -> str:
        """The result in words."""
        if self.settings is None:
            return f"{self.server}: computes is not set in servers.yaml"
        with_settings = f"{self.server} ({self.settings.sentence})"
        if self.record is None:
            return f"{with_settings}: not checked"
        report = self.record.report
        return f"{with_settings}: " + ": ".join([report.outcome, *filter(None, ["; ".join(report.reasons)])])


def proofs_of(artifacts: Artifacts, adapter: Artifact, servers: ServersFile) -> list[Proof]:
    """The proof of each server of the adapter's base. Raises CorruptArtifact for altered records, and UserError if the
    base is gone."""
    base = artifacts.get(Address.parse(adapter.manifest.inputs["base"].address))
    return [
        Proof(
            server=name,
            settings=settings,
            record=last_parity(artifacts.store, adapter, settings) if settings is not None else None,
        )
        for name, settings in settings_by_server(base, servers).items()
    ]


def require_parity(artifacts: Artifacts, adapter: Artifact, servers: ServersFile) -> list[str]:
    """The findings, if every server of the adapter's base has a proof. Raises UserError otherwise."""
    proofs = proofs_of(artifacts, adapter, servers)
    lacking = [proof.sentence for proof in proofs if not proof.proved]
    if lacking:
        raise UserError(
            "production requires a proof of parity with the servers' current settings\n" + "\n".join(lacking),
            where=str(adapter.address),
            remedy=_remedy(adapter, proofs),
        )
    return [f"proved on {proof.sentence}" for proof in proofs]


def _remedy(adapter: Artifact, proofs: list[Proof]) -> str:
    silent = [proof.server for proof in proofs if proof.settings is None]
    if silent:
        return f"Add computes to {', '.join(silent)} in servers.yaml, then: ft serve parity {adapter.address}"
    return f"Check them: ft serve parity {adapter.address}"
