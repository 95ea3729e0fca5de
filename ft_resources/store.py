"""All file access: one object-store API over local disk, S3, GCS and Azure (obstore).

Two kinds of writes exist. ``create`` is create-only: of any number of concurrent callers exactly one wins, which
is what names, claims and manifests rely on. ``put`` overwrites and is for the private folder of one writer.
Both are atomic: a reader sees all of an object or nothing of it.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import obstore
from obstore import exceptions as obstore_errors
from obstore.store import LocalStore, from_url
from pydantic import TypeAdapter

from ft_resources.canonical import canonical_json
from ft_resources.errors import CorruptArtifact, NoStore, StoreUnavailable, UserError
from ft_resources.idempotent_retry import broken, create_once, patiently
from ft_resources.json_object import json_object, require_shape
from ft_resources.store_layout import ROOT_FOLDERS, Layout
from ft_resources.store_refusals import CREATE, explained
from ft_resources.web_identity import narrowed, session_credentials

_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+=@-]*")
_READ_CHUNK = 8 << 20
# The connection may break in the middle of a listing's page; the client does not retry that.
_LIST_TRIES = 4


@cache
def _adapter(shape: type) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One listed object: its path below the root, size in bytes and time of last change (UTC)."""

    path: str
    size: int
    modified: datetime


class Store:
    """Objects below one root URL, such as ``file:///srv/ft``, a plain folder, or ``s3://bucket/prefix``.

    Credentials and endpoints of cloud stores come from the environment, as their own tools read them
    (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, ``AWS_REGION`` …).
    """

    def __init__(self, url: str, *, create: bool = True, layout: Layout = Layout.BESIDE) -> None:
        """Raises NoStore for a folder that does not exist, unless ``create``; StoreUnavailable for one that cannot be
        created, and UserError for a URL that means nothing. Only the store's marker knows ``layout``: open a store by
        ``store_marker.open_store``, or by a spec, which has it from there."""
        self.url = normalize_url(url)
        self.layout = layout
        self.root: Path | None = None
        self._narrowed = False
        if self.url.startswith("file://"):
            self.root = Path(self.url.removeprefix("file://"))
            if not create and not self.root.is_dir():
                raise NoStore(self.url)
            with explained(self.url, "open"):
                self.root.mkdir(parents=True, exist_ok=True)
                self._backend: Any = LocalStore(self.root)
        else:
            options: dict[str, Any] = {}
            if os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://"):
                options["client_options"] = {"allow_http": True}
            self._narrowed = self.url.startswith("s3://") and narrowed()
            if self._narrowed:
                options["credential_provider"] = session_credentials
            with explained(self.url, "open"):
                self._backend = from_url(self.url, **options)

    def get(self, path: str) -> bytes:
        """The bytes at ``path``. Raises FileNotFoundError if there is no object."""
        with self._absence_told(path), explained(path, "read"):
            return patiently(lambda: bytes(obstore.get(self._backend, self._at(path)).bytes()))

    def get_json(self, path: str, shape: type | None = None) -> Any:
        """The JSON object at ``path``. Raises FileNotFoundError, or CorruptArtifact for what is none, for members that
        are not as in ``shape``, a TypedDict, and for one that is asked for and missing."""
        remedy = "Restore this object from the bucket's versions or a backup."
        found = json_object(self.get(path), CorruptArtifact, where=path, remedy=remedy, what="a record of the store")
        if shape is not None:
            require_shape(found, _adapter(shape), found.error)
        return found

    def find_json(self, path: str) -> Any | None:
        """The JSON object at ``path``, or None if there is no object. Raises CorruptArtifact as ``get_json`` does."""
        try:
            return self.get_json(path)
        except FileNotFoundError:
            return None

    def exists(self, path: str) -> bool:
        """Whether an object is at ``path``."""
        try:
            with self._absence_told(path), explained(path, "read"):
                self._look(path)
        except FileNotFoundError:
            return False
        return True

    def _look(self, path: str) -> None:
        try:
            patiently(lambda: obstore.head(self._backend, self._at(path)))
        except FileNotFoundError:
            if self.root is not None:
                raise
            # The answer to HEAD has no body, which would say whether it is the object or the bucket that is missing.
            patiently(lambda: obstore.get(self._backend, self._at(path)))

    def put(self, path: str, data: bytes) -> None:
        """Write ``data`` at ``path``, replacing any object there."""
        with explained(path, "write"):
            patiently(lambda: obstore.put(self._backend, self._at(path), data))

    def put_json(self, path: str, value: Any) -> None:
        """Write ``value`` as canonical JSON, replacing any object there."""
        self.put(path, canonical_json(value))

    def create(self, path: str, data: bytes) -> bool:
        """Write ``data`` unless an object exists. True for the one caller whose write won, False for all others.

        This holds even if the bucket's answer is lost. StoreUnavailable means the outcome is unknown; it is raised too,
        by the first call of a process that wins, for a bucket that lets several win.
        """
        with explained(path, CREATE):
            if not isinstance(self._backend, LocalStore):
                return create_once(self._backend, self.url, self._at(path), data)
            try:
                obstore.put(self._backend, self._at(path), data, mode="create")
            except obstore_errors.AlreadyExistsError:
                return False
            return True

    def create_json(self, path: str, value: Any) -> bool:
        """``create`` with canonical JSON."""
        return self.create(path, canonical_json(value))

    def delete(self, path: str) -> None:
        """Remove the object at ``path``; removing nothing is no error."""
        try:
            with explained(path, "delete"):
                patiently(lambda: obstore.delete(self._backend, self._at(path)))
        except FileNotFoundError:
            return

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Every object below the folder ``prefix``, in unspecified order."""
        last: str | None = None
        failures = 0
        with explained(prefix, "list"):
            while True:
                try:
                    for batch in obstore.list(self._backend, self._at(prefix), offset=last, chunk_size=1000):
                        for item in batch:
                            path = self.layout.path(item["path"])
                            yield Entry(path=path, size=item["size"], modified=item["last_modified"])
                            # Buckets list in the order of names, so an interrupted listing resumes after this name.
                            last = item["path"]
                        failures = 0
                    return
                except obstore_errors.GenericError as error:
                    failures += 1
                    if self.root is not None or failures > _LIST_TRIES or not broken(error):
                        raise

    def names(self, folder: str) -> list[str]:
        """Names of the objects directly in ``folder``, sorted. Cheaper than ``entries``: no sizes or times."""
        with explained(folder, "list"):
            if self.root is None:
                found = patiently(lambda: obstore.list_with_delimiter(self._backend, self._at(folder)))["objects"]
                return sorted(item["path"].rsplit("/", 1)[-1] for item in found)
            try:
                with os.scandir(self.root / self._at(folder)) as entries:
                    # A partial file has a name that no object may have.
                    return sorted(each.name for each in entries if each.is_file() and _SEGMENT.fullmatch(each.name))
            except FileNotFoundError:
                return []

    def names_after(self, folder: str, after: str = "") -> Iterator[str]:
        """Names of the objects directly in ``folder`` that sort after ``after``, in order; of a bucket only as many are
        listed as are taken, a thousand at a time. The folder must hold no folders."""
        if self.root is not None:
            yield from (name for name in self.names(folder) if name > after)
            return
        offset = f"{self._at(folder)}/{after}" if after else None
        with explained(folder, "list"):
            for batch in obstore.list(self._backend, self._at(folder), offset=offset, chunk_size=1000):
                yield from (item["path"].rsplit("/", 1)[-1] for item in batch)

    def folders(self, prefix: str) -> list[str]:
        """Names of the folders directly below ``prefix``, sorted."""
        with explained(prefix, "list"):
            return self._folders_at(self._at(prefix))

    def tenants(self) -> list[str]:
        """The tenants with anything in the store, including ``shared``, sorted; none of the store's own folders."""
        with explained(self.url, "list"):
            found = self._folders_at(self.layout.prefix.rstrip("/"))
        return found if self.layout.prefix else [name for name in found if name not in ROOT_FOLDERS]

    def root_folders(self) -> list[str]:
        """Names of all folders that lie directly below the root, sorted."""
        with explained(self.url, "list"):
            return self._folders_at("")

    def upload(self, source: Path, path: str) -> None:
        """Copy a local file to ``path``; files over 8 MiB go up in parts, and appear only when whole."""

        with source.open("rb") as file, explained(path, "write"):

            def put() -> None:
                file.seek(0)
                obstore.put(self._backend, self._at(path), file, chunk_size=_READ_CHUNK)

            patiently(put)

    def write(self, path: str, chunks: Iterator[bytes]) -> None:
        """Write bytes as they come, in parts of 8 MiB. The object appears only when all are there: where ``chunks``
        raises, that is raised and nothing appears. A broken connection is not tried again."""
        with explained(path, "write"):
            obstore.put(self._backend, self._at(path), chunks, chunk_size=_READ_CHUNK)

    def read(self, path: str) -> Iterator[bytes]:
        """The bytes at ``path``, in parts. Raises FileNotFoundError, before the first one, if there is no object."""
        with self._absence_told(path), explained(path, "read"):
            found = patiently(lambda: obstore.get(self._backend, self._at(path)))
        return (bytes(chunk) for chunk in found.stream(min_chunk_size=_READ_CHUNK))

    def download(self, path: str, target: Path) -> None:
        """Copy the object at ``path`` to a local file, which appears only once it is complete."""
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.{os.getpid()}.partial")

        def fetch() -> None:
            stream = obstore.get(self._backend, self._at(path)).stream(min_chunk_size=_READ_CHUNK)
            with partial.open("wb") as file:
                for chunk in stream:
                    file.write(chunk)

        with explained(path, "read"):
            try:
                patiently(fetch)
                partial.replace(target)
            finally:
                partial.unlink(missing_ok=True)

    @contextmanager
    def _absence_told(self, path: str) -> Iterator[None]:
        """Without the right to list the whole bucket, S3 answers 403 for missing objects; then list the folder."""
        try:
            yield
        except StoreUnavailable as error:
            denied = isinstance(error.__cause__, obstore_errors.PermissionDeniedError)
            folder = path.rpartition("/")[0]
            if not (denied and self._narrowed and folder):
                raise
            if any(entry.path == path for entry in self.entries(folder)):
                raise
            raise FileNotFoundError(path) from error

    def local_path(self, path: str) -> Path | None:
        """The object's path on this machine's disk, or None for a store that is elsewhere."""
        return self.root / self._at(path) if self.root is not None else None

    def url_of(self, path: str) -> str:
        """The URL of the object or folder at ``path``."""
        return f"{self.url}/{self._at(path)}"

    def _at(self, path: str) -> str:
        """Where ``path`` lies below the root. Raises UserError for a path that is not safe."""
        return self.layout.place(_checked(path))

    def _folders_at(self, place: str) -> list[str]:
        result = patiently(lambda: obstore.list_with_delimiter(self._backend, place or None))
        return sorted(item.rstrip("/").rsplit("/", 1)[-1] for item in result["common_prefixes"])


def normalize_url(url: str) -> str:
    """``url`` with plain paths made absolute ``file://`` URLs and no trailing slash."""
    if not url:
        raise UserError("the store URL is empty", where="FT_STORE", remedy="Set it to a folder or a bucket URL.")
    if "://" not in url:
        url = f"file://{Path(url).expanduser().resolve()}"
    return url.rstrip("/")


def _checked(path: str) -> str:
    """``path`` itself if every segment is safe. Keys come from users, so path traversal must be impossible."""
    for segment in path.split("/"):
        if not _SEGMENT.fullmatch(segment):
            raise UserError(
                f"{segment!r} cannot be part of a path in the store",
                where=path,
                remedy="Use letters, digits, '.', '_', '-', '+', '=', '@', and do not start with a dot.",
            )
    return path
