"""Parity records: for each adapter and each server configuration, a log of whether it answers as the evaluated model.

Record ``seq`` is at ``<tenant>/parity/<content digest of the adapter>/<digest of the settings>/<seq>.json``. The last
one counts, so a repaired server can be checked again, and earlier results are kept.
"""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import ClassVar, Literal

from pydantic import Field

from ft_assets.records.chained_log import ChainedLog, SealedRecord
from ft_assets.workers.serving.parity.report import ParityReport
from ft_assets.workers.serving.parity.settings import ServerSettings
from ft_resources.artifacts import Artifact, InputRef
from ft_resources.store import Store


class ParityRecord(SealedRecord):
    """One check of a server: what was asked for, what was measured, and who asked."""

    WHAT: ClassVar[str] = "the record"

    version: Literal[1] = 1
    id: str = Field(min_length=1, description="Drawn by the writer, to recognise its own record.")
    line: str = Field(description="tenant.dataset-name.recipe-name.")
    adapter: InputRef = Field(description="Address and content digest.")
    base: InputRef = Field(description="The base model.")
    server: str = Field(description="What the server is called.")
    report: ParityReport = Field(description="Figures and verdict.")
    actor: str = Field(min_length=1, description="Who asked.")
    at: str = Field(min_length=1, description="UTC, ISO 8601.")

    @property
    def path(self) -> str:
        return f"{_folder(self.adapter, self.report.settings.digest)}/{self.seq:06d}.json"


def record_parity(store: Store, adapter: Artifact, report: ParityReport, *, server: str, actor: str) -> ParityRecord:
    """Append the report to the log of this adapter and these settings. Raises CorruptArtifact for a broken log."""
    log = _log(store, adapter.ref, report.settings.digest)
    while True:
        records, head = log.read()
        record = ParityRecord(
            seq=len(records) + 1,
            previous=head,
            id=uuid.uuid4().hex,
            line=adapter.facts["line"],
            adapter=adapter.ref,
            base=adapter.manifest.inputs["base"],
            server=server,
            report=report,
            actor=actor,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        if log.append(record).id == record.id:
            return record


def list_parity(store: Store, adapter: Artifact) -> list[ParityRecord]:
    """The last record of an adapter for each settings it was checked with, oldest first.

    Raises CorruptArtifact, which names the file, for a log with a gap or a record that was altered.
    """
    found = [log.read()[0] for log in parity_logs(store, adapter.address.tenant, adapter.digest)]
    return sorted((records[-1] for records in found if records), key=lambda record: record.at)


def checked_adapters(store: Store, tenant: str) -> list[str]:
    """Content digests of a tenant's adapters that were ever checked."""
    return store.folders(_of_tenant(tenant))


def parity_logs(store: Store, tenant: str, adapter: str) -> Iterator[ChainedLog[ParityRecord]]:
    """The logs of the adapter with the content digest ``adapter``, one for each settings it was checked with."""
    folder = f"{_of_tenant(tenant)}/{adapter}"
    for settings in store.folders(folder):
        yield ChainedLog(store=store, folder=f"{folder}/{settings}", kind=ParityRecord)


def last_parity(store: Store, adapter: Artifact, settings: ServerSettings) -> ParityRecord | None:
    """The last record of an adapter and exactly these settings; None if there is no check. Raises CorruptArtifact as
    ``list_parity``."""
    records, _ = _log(store, adapter.ref, settings.digest).read()
    return records[-1] if records else None


def _folder(adapter: InputRef, settings: str) -> str:
    return f"{_of_tenant(adapter.address.partition('/')[0])}/{adapter.digest}/{settings}"


def _of_tenant(tenant: str) -> str:
    return f"{tenant}/parity"


def _log(store: Store, adapter: InputRef, settings: str) -> ChainedLog[ParityRecord]:
    return ChainedLog(store=store, folder=_folder(adapter, settings), kind=ParityRecord)
