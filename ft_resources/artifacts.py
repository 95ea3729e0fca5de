"""Artifacts: folders of files that exist exactly when their manifest does.

Each writer uploads to a private folder below the address, then creates ``manifest.json`` with a create-only write.
Writers therefore never mix, a folder without a manifest does not exist, and exactly one of two finished writers wins.
"""

import json
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, GetCoreSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from ft_resources.canonical import canonical_json, digest, sha256_bytes, sha256_file
from ft_resources.errors import CorruptArtifact, NotFound, StoreUnavailable, UserError
from ft_resources.facts import facts_of, members_of
from ft_resources.json_object import JsonObject, json_object, require_shape
from ft_resources.provenance import lock_digest, software_versions, source_commit
from ft_resources.records import RESTORE, Record
from ft_resources.store import Store
from ft_resources.strict_model import StrictModel

MANIFEST = "manifest.json"
# Files below these folders explain an artifact; they are stored and verified but do not decide its content digest.
EXPLAINING_FOLDERS = ("report/", "evidence/", "log/")


class Address(StrictModel):
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
        """The address in ``text``. Raises UserError if the text is not an address."""
        parts = text.strip("/").split("/")
        if len(parts) != 3 or not all(parts):
            raise UserError(
                f"{text!r} is not an artifact address", remedy="Write it as <tenant>/<asset>/<fingerprint>."
            )
        return cls(tenant=parts[0], asset=parts[1], fingerprint=parts[2])


class FileEntry(StrictModel):
    """One stored file: bytes and sha256."""

    size: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> "FileEntry":
        return cls(size=path.stat().st_size, sha256=sha256_file(path))

    def download(self, store: Store, location: str, target: Path) -> None:
        """Copy the object at ``location`` to ``target``. Raises CorruptArtifact if it is missing or another file."""
        name = location.rsplit("/", 1)[-1]
        try:
            store.download(location, target)
        except FileNotFoundError:
            raise CorruptArtifact(f"{name} is missing", where=location) from None
        if sha256_file(target) != self.sha256:
            raise CorruptArtifact(f"{name} does not match its sha256", where=location)


def check_inside(name: str) -> str:
    """``name`` itself if it is a relative path that stays below the folder it is joined to. Raises ValueError."""
    if "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise ValueError(f"{name!r} does not name a file below its folder")
    return name


# Readers join these names to folders of their own; one that a forger wrote must not lead out of them.
FileName = Annotated[str, AfterValidator(check_inside)]


class InputRef(StrictModel):
    """An input as the fingerprint sees it: its address and its content digest."""

    address: str
    digest: str


class Manifest(Record):
    """What makes a folder an artifact. ``identity`` is the value whose digest is the fingerprint.

    ``seal`` is the digest of all other fields: facts and inputs decide what is made next, but no file hash covers them.
    """

    WHAT: ClassVar[str] = "the manifest"

    version: int = 1
    tenant: str
    asset: str
    fingerprint: str
    writer: FileName
    files: dict[FileName, FileEntry]
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
        # A JSON round trip first: readers see string keys, and their order decides the digest.
        return digest(json.loads(canonical_json(self.model_dump(mode="json", exclude={"seal"}))))

    @property
    def address(self) -> Address:
        return Address(tenant=self.tenant, asset=self.asset, fingerprint=self.fingerprint)


class Artifact:
    """A published artifact. Every read is verified against the manifest."""

    def __init__(self, store: Store, manifest: Manifest) -> None:
        self.store, self.manifest = store, manifest

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """In JSON an artifact is its manifest, without who made it: what all tenants share was made by one of them.
        Who reads one gives the store of its files as ``context["store"]``."""

        def made(manifest: Manifest, info: ValidationInfo) -> Artifact:
            return cls((info.context or {})["store"], manifest)

        return core_schema.with_info_after_validator_function(
            made,
            handler.generate_schema(Manifest),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda artifact: {**artifact.manifest.model_dump(mode="json"), "actor": ""},
                return_schema=core_schema.dict_schema(),
            ),
        )

    @property
    def address(self) -> Address:
        return self.manifest.address

    @property
    def digest(self) -> str:
        """The content digest: what downstream fingerprints hash."""
        return self.manifest.content_digest

    @property
    def facts(self) -> dict[str, Any]:
        """Facts that the writer recorded for later steps (JSON values)."""
        return self.manifest.facts

    @property
    def ref(self) -> InputRef:
        return InputRef(address=str(self.address), digest=self.digest)

    def location(self, name: str) -> str:
        """The path in the store of file ``name``. Raises CorruptArtifact for a file that the manifest does not list."""
        if name not in self.manifest.files:
            raise self._corrupt(name, "is not in its manifest")
        return f"{self.address}/{self.manifest.writer}/{name}"

    def read(self, name: str) -> bytes:
        """The bytes of file ``name``. Raises CorruptArtifact if they differ from the manifest."""
        location = self.location(name)
        try:
            data = self.store.get(location)
        except FileNotFoundError:
            raise self._corrupt(name, "is missing") from None
        if sha256_bytes(data) != self.manifest.files[name].sha256:
            raise self._corrupt(name, "does not match its sha256")
        return data

    def read_json(self, name: str) -> JsonObject:
        """The JSON object in file ``name``. Raises CorruptArtifact as ``read`` does, and for what is none."""
        remedy = "Delete the manifest of this artifact, and make it again."
        found = json_object(self.read(name), CorruptArtifact, where=self.location(name), remedy=remedy)
        if shape := members_of(name):
            require_shape(found, shape, found.error)
        return found

    def path(self, name: str, scratch: Path) -> Path:
        """A verified local file: in place if the store is on local disk, else a copy below ``scratch``."""
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
        """Copy file ``name`` to ``target``, which appears only when complete and verified."""
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
        """Recompute every hash, reading files in pieces; the findings as sentences, none when all is well."""
        findings, path = [], f"{self.address}/{MANIFEST}"
        # The seal covers the manifest's values; another spelling of the same value (1e5 for 100000.0) is a change too.
        if self.store.get(path) != canonical_json(self.store.get_json(path)):
            findings.append(f"{path}: the manifest's bytes were altered")
        if content_digest(self.manifest.files) != self.manifest.content_digest:
            findings.append(f"{self.address}: the content digest is not the digest of the listed files")
        for name in sorted(self.manifest.files):
            with TemporaryDirectory(prefix="ft-verify-") as scratch:
                try:
                    self.path(name, Path(scratch))
                except CorruptArtifact as error:
                    findings.append(error.what)
        return findings

    def _corrupt(self, name: str, how: str) -> CorruptArtifact:
        return CorruptArtifact(
            f"{name} of {self.address} {how}",
            where=f"{self.address}/{self.manifest.writer}/{name}",
            remedy="Restore the object from the bucket's versions or a backup, or delete the artifact's manifest so "
            "that it is made again.",
        )


class Artifacts:
    """Find and publish artifacts in one store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def find(self, address: Address) -> Artifact | None:
        """The artifact at ``address``, or None without a manifest. Raises CorruptArtifact for a broken one."""
        path = f"{address}/{MANIFEST}"
        manifest = Manifest.find(self.store, path)
        if manifest is None:
            return None
        if manifest.address != address or digest(manifest.identity) != manifest.fingerprint:
            raise CorruptArtifact(
                "the manifest belongs to another artifact", where=path, remedy="Restore it from a backup."
            )
        if manifest.seal != manifest.expected_seal:
            raise CorruptArtifact("the manifest was altered: it does not match its seal", where=path, remedy=RESTORE)
        damaged = CorruptArtifact("the manifest cannot be read", where=path, remedy=RESTORE)
        require_shape(manifest.facts, facts_of(manifest.asset), damaged)
        # Who asks for what it lacks is told of the manifest.
        told = {name: JsonObject(getattr(manifest, name), damaged) for name in ("facts", "identity", "inputs")}
        return Artifact(self.store, manifest.model_copy(update=told))

    def get(self, address: Address) -> Artifact:
        """The artifact at ``address``. Raises NotFound if there is none."""
        artifact = self.find(address)
        if artifact is None:
            raise NotFound(
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

        ``writer`` names the private folder and must be unique to this attempt. Raises ValueError if ``identity`` does
        not hash to the address's fingerprint (a bug in the caller), StoreUnavailable if the store refuses.
        """
        if digest(identity) != address.fingerprint:
            raise ValueError(f"the identity given does not hash to the fingerprint of {address}")
        names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        if not names:
            raise ValueError(f"nothing to publish at {address}: {folder} has no files")
        files = {name: FileEntry.of(folder / name) for name in names}
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
        data = manifest.model_copy(update={"seal": manifest.expected_seal}).data()
        path = f"{address}/{MANIFEST}"
        if self.store.exists(path):
            return self.get(address)
        sent: list[str] = []
        try:
            for name in names:
                # Added to the list before the upload: an upload that fails half-way may have left an object.
                sent.append(f"{address}/{writer}/{name}")
                self.store.upload(folder / name, sent[-1])
        except BaseException:
            self._discard(sent)
            raise
        try:
            self.store.create(path, data)
        except BaseException:
            # The manifest may exist anyway: a stop may come right after it, or its answer may be lost. A bucket may
            # even create it later, so there the files stay.
            if self.store.root is not None and not self.store.exists(path):
                self._discard(sent)
            raise
        # Not the answer of ``create``: a request repeated after a lost answer finds its own manifest.
        published = self.get(address)
        if published.manifest.writer != writer:
            self._discard(sent)
        return published

    def _discard(self, paths: list[str]) -> None:
        """Remove a losing writer's uploads; without a manifest they are invisible, so best effort is enough."""
        for path in paths:
            with suppress(StoreUnavailable):
                self.store.delete(path)


def content_digest(files: dict[str, FileEntry]) -> str:
    """Digest of the names and hashes of the files that count as content (see EXPLAINING_FOLDERS)."""
    return digest({name: entry.sha256 for name, entry in files.items() if not name.startswith(EXPLAINING_FOLDERS)})
