"""Artifacts: folders of files that exist exactly when their manifest does.

A writer puts its files into a folder of its own below the address and then creates ``manifest.json``, create-only.
So two writers never mix, a folder without a manifest does not exist, and of two finished writers one wins.
"""

import json
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ft_resources.canonical import canonical_json, digest, sha256_bytes, sha256_file
from ft_resources.errors import CorruptArtifact, StoreUnavailable, UserError
from ft_resources.provenance import lock_digest, software_versions, source_commit
from ft_resources.store import Store

MANIFEST = "manifest.json"
# Files below these folders explain an artifact; they are stored and verified but do not decide its content digest.
EXPLAINING_FOLDERS = ("report/", "evidence/", "log/")


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Address(_Record):
    """``<tenant>/<asset>/<fingerprint>``: where an artifact lives below the store's root."""

    tenant: str
    asset: str
    fingerprint: str

    @property
    def path(self) -> str:
        return f"{self.tenant}/{self.asset}/{self.fingerprint}"

    def __str__(self) -> str:
        return self.path

    @classmethod
    def parse(cls, text: str) -> "Address":
        """The address in ``text``. Raises UserError where it is none."""
        parts = text.strip("/").split("/")
        if len(parts) != 3 or not all(parts):
            raise UserError(
                f"{text!r} is not an artifact address", remedy="Write it as <tenant>/<asset>/<fingerprint>."
            )
        return cls(tenant=parts[0], asset=parts[1], fingerprint=parts[2])


class FileEntry(_Record):
    """One stored file: bytes and sha256."""

    size: int
    sha256: str


class InputRef(_Record):
    """An input as the fingerprint sees it: where it is, and the digest of what counts of it."""

    address: str
    digest: str


class Manifest(_Record):
    """What makes a folder an artifact. ``identity`` is the value whose digest is the fingerprint.

    ``seal`` is the digest of all other fields: facts and inputs decide what is made next, and are in no file's hash.
    Only manifests from before there were seals have none.
    """

    version: int = 1
    tenant: str
    asset: str
    fingerprint: str
    writer: str
    files: dict[str, FileEntry]
    content_digest: str
    identity: dict[str, Any]
    inputs: dict[str, InputRef]
    facts: dict[str, Any]
    software: dict[str, str]
    commit: str
    lock_digest: str
    actor: str
    created_at: str
    seal: str = ""

    @property
    def expected_seal(self) -> str:
        # Once through JSON, as the reader sees it: there all keys are texts, which decides their order.
        return digest(json.loads(canonical_json(self.model_dump(mode="json", exclude={"seal"}))))

    @property
    def address(self) -> Address:
        return Address(tenant=self.tenant, asset=self.asset, fingerprint=self.fingerprint)


class Artifact:
    """One published artifact. Every read is verified against the manifest."""

    def __init__(self, store: Store, manifest: Manifest) -> None:
        self.store, self.manifest = store, manifest

    @property
    def address(self) -> Address:
        return self.manifest.address

    @property
    def digest(self) -> str:
        """The content digest: what downstream fingerprints hash."""
        return self.manifest.content_digest

    @property
    def facts(self) -> dict[str, Any]:
        """Numbers and names the writer left for others (JSON values)."""
        return self.manifest.facts

    @property
    def ref(self) -> InputRef:
        return InputRef(address=str(self.address), digest=self.digest)

    def location(self, name: str) -> str:
        """The path in the store of file ``name``. Raises KeyError for a file that the manifest does not list."""
        if name not in self.manifest.files:
            raise KeyError(f"{self.address} has no file {name!r}")
        return f"{self.address}/{self.manifest.writer}/{name}"

    def read(self, name: str) -> bytes:
        """The bytes of file ``name``. Raises CorruptArtifact where they differ from the manifest."""
        location = self.location(name)
        try:
            data = self.store.get(location)
        except FileNotFoundError:
            raise self._corrupt(name, "is missing") from None
        if sha256_bytes(data) != self.manifest.files[name].sha256:
            raise self._corrupt(name, "does not match its sha256")
        return data

    def path(self, name: str, scratch: Path) -> Path:
        """A verified local file: in place where the store is local disk, else a copy below ``scratch``."""
        location = self.location(name)
        here = self.store.local_path(location)
        target = here or scratch / self.address.fingerprint / name
        if here is None and not target.exists():
            self.fetch(name, target)
            return target
        try:
            matches = sha256_file(target) == self.manifest.files[name].sha256
        except FileNotFoundError:
            raise self._corrupt(name, "is missing") from None
        if not matches:
            if here is None:
                target.unlink(missing_ok=True)
            raise self._corrupt(name, "does not match its sha256")
        return target

    def fetch(self, name: str, target: Path) -> None:
        """Copy file ``name`` to ``target``, where it appears only when it is whole and verified."""
        partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}.fetched")
        try:
            self.store.download(self.location(name), partial)
            if sha256_file(partial) != self.manifest.files[name].sha256:
                raise self._corrupt(name, "does not match its sha256")
            partial.replace(target)
        except FileNotFoundError:
            raise self._corrupt(name, "is missing") from None
        finally:
            partial.unlink(missing_ok=True)

    def folder(self, scratch: Path, prefix: str = "") -> Path:
        """A local folder with every file whose name starts with ``prefix``, verified. Treat it as read-only."""
        names = [name for name in self.manifest.files if name.startswith(prefix)]
        if not names:
            raise KeyError(f"{self.address} has no files below {prefix!r}")
        root = self.path(names[0], scratch)
        for _ in names[0].split("/"):
            root = root.parent
        for name in names[1:]:
            self.path(name, scratch)
        return root / prefix.rstrip("/") if prefix else root

    def verify(self) -> list[str]:
        """Recompute every hash; the findings as sentences, none when all is well."""
        findings = []
        for name in self.manifest.files:
            try:
                self.read(name)
            except CorruptArtifact as error:
                findings.append(error.what)
        if digest(self.manifest.identity) != self.manifest.fingerprint:
            findings.append(f"{self.address}: the fingerprint is not the digest of the recorded identity")
        if content_digest(self.manifest.files) != self.manifest.content_digest:
            findings.append(f"{self.address}: the content digest is not the digest of the listed files")
        return findings

    def _corrupt(self, name: str, how: str) -> CorruptArtifact:
        return CorruptArtifact(
            f"{name} of {self.address} {how}",
            where=f"{self.address}/{self.manifest.writer}/{name}",
            remedy="Restore the object from the bucket's versions or a backup, or delete the artifact's "
            "manifest so that it is made again.",
        )


class Artifacts:
    """Find and publish artifacts in one store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def find(self, address: Address) -> Artifact | None:
        """The artifact at ``address``, or None where no manifest is. Raises CorruptArtifact for a broken one."""
        path = f"{address}/{MANIFEST}"
        raw = self.store.find_json(path)
        if raw is None:
            return None
        try:
            manifest = Manifest.model_validate(raw)
        except ValidationError as error:
            raise CorruptArtifact(
                f"the manifest cannot be read ({error.error_count()} problems)",
                where=path,
                remedy="Restore the object from the bucket's versions or a backup.",
            ) from error
        if manifest.address != address or digest(manifest.identity) != manifest.fingerprint:
            raise CorruptArtifact(
                "the manifest belongs to another artifact", where=path, remedy="Restore it from a backup."
            )
        if manifest.seal and manifest.seal != manifest.expected_seal:
            raise CorruptArtifact(
                "the manifest was altered: it does not match its seal",
                where=path,
                remedy="Restore the object from the bucket's versions or a backup.",
            )
        return Artifact(self.store, manifest)

    def get(self, address: Address) -> Artifact:
        """The artifact at ``address``. Raises UserError where there is none."""
        artifact = self.find(address)
        if artifact is None:
            raise UserError(
                "there is no such artifact", where=str(address), remedy="Check the address, or make it again."
            )
        return artifact

    def publish(
        self,
        address: Address,
        folder: Path,
        *,
        writer: str,
        identity: dict[str, Any],
        inputs: dict[str, InputRef] | None = None,
        facts: dict[str, Any] | None = None,
        actor: str,
    ) -> Artifact:
        """Upload every file of ``folder`` and create the manifest; the winner's artifact if another came first.

        ``writer`` names the private folder and must be unique to this attempt. Raises ValueError where ``identity``
        does not hash to the address's fingerprint (a bug of the caller), StoreUnavailable where the store refuses.
        """
        if digest(identity) != address.fingerprint:
            raise ValueError(f"the identity given does not hash to the fingerprint of {address}")
        names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        if not names:
            raise ValueError(f"nothing to publish at {address}: {folder} has no files")
        files = {
            name: FileEntry(size=(folder / name).stat().st_size, sha256=sha256_file(folder / name)) for name in names
        }
        manifest = Manifest(
            tenant=address.tenant,
            asset=address.asset,
            fingerprint=address.fingerprint,
            writer=writer,
            files=files,
            content_digest=content_digest(files),
            identity=identity,
            inputs=inputs or {},
            facts=facts or {},
            software=software_versions(),
            commit=source_commit(),
            lock_digest=lock_digest(),
            actor=actor,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        data = canonical_json(manifest.model_copy(update={"seal": manifest.expected_seal}).model_dump(mode="json"))
        path = f"{address}/{MANIFEST}"
        if self.store.exists(path):
            return self.get(address)
        sent: list[str] = []
        try:
            for name in names:
                # Listed before it is sent: an upload that fails half-way may still have left something.
                sent.append(f"{address}/{writer}/{name}")
                self.store.upload(folder / name, sent[-1])
        except BaseException:
            self._discard(sent)
            raise
        try:
            self.store.create(path, data)
        except BaseException:
            # The manifest may be there all the same: a stop may come right after it, a network may lose the answer.
            # A bucket may even create it after this, so there the files stay.
            if self.store.root is not None and not self.store.exists(path):
                self._discard(sent)
            raise
        # Not what ``create`` answered: a request that is repeated after its answer got lost finds its own manifest.
        published = self.get(address)
        if published.manifest.writer != writer:
            self._discard(sent)
        return published

    def _discard(self, paths: list[str]) -> None:
        """Remove what a writer who did not win has sent; without a manifest nobody sees it, so best effort will do."""
        for path in paths:
            with suppress(StoreUnavailable):
                self.store.delete(path)


def content_digest(files: dict[str, FileEntry]) -> str:
    """Digest of the names and hashes of the files that count as content (see EXPLAINING_FOLDERS)."""
    return digest({name: entry.sha256 for name, entry in files.items() if not name.startswith(EXPLAINING_FOLDERS)})
