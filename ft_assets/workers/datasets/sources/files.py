"""Files of a bucket or a folder: new rows are files that were added, changed or removed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ft_assets.settings.connections import FilesConnection
from ft_assets.workers.datasets.intake.kinds import kind_of
from ft_assets.workers.datasets.sources.place import Fetched, SourceUnavailable, secret
from ft_resources.canonical import digest
from ft_resources.errors import BadData, UserError, first_line

_MOST_FILES = 10_000
_MOST_BYTES = 64 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class _Object:
    path: str
    size: int
    mark: str
    """Changes with the file's bytes: the ETag, or the time of the last change."""


class Files:
    """The files at ``path`` below a connection's URL."""

    def __init__(self, connection: FilesConnection, path: str, store_url: str) -> None:
        root, store = _place(connection.url), _place(store_url)
        # The platform may read every tenant's folder in there.
        if root.startswith(store) or store.startswith(root):
            raise UserError(
                "this connection leads into the platform's own store",
                where=f"tenants.yaml: connections: {connection.url}",
                remedy="Use another bucket, prefix or folder for data that tenants bring.",
            )
        self._connection, self._path = connection, path

    def look(self) -> str:
        """How many files there are that can be read, and a digest of their names, sizes and marks."""
        return _seen(self._list(self._opened()))

    def fetch(self, folder: Path, *, most_rows: int | None) -> Fetched:
        """The files, each as it was listed. Raises SourceUnavailable if one changed meanwhile."""
        backend = self._opened()
        objects, taken = self._list(backend), []
        for each in objects:
            inside = each.path.removeprefix(self._path).lstrip("/") or Path(each.path).name
            target = folder / inside
            with _explained(each.path):
                target.parent.mkdir(parents=True, exist_ok=True)
                found = backend.get(each.path)
                if _object(found.meta) != each:
                    raise SourceUnavailable(
                        "the file changed while it was read", where=each.path, remedy="The source is read again later."
                    )
                with target.open("wb") as file:
                    for piece in found.stream():
                        file.write(piece)
            taken.append(target)
        return Fetched(seen=_seen(objects), files=tuple(taken))

    def _opened(self) -> Any:
        from obstore.store import LocalStore, from_url

        known = self._connection
        if known.url.startswith("file://"):
            with _explained(known.url):
                return LocalStore(known.url.removeprefix("file://"))
        options: dict[str, Any] = {}
        if known.url.startswith("s3://"):
            given = {
                "endpoint": known.endpoint,
                "region": known.region,
                "access_key_id": secret(known.key) if known.key else "",
                "secret_access_key": secret(known.secret) if known.secret else "",
            }
            options = {name: value for name, value in given.items() if value}
            if known.endpoint.startswith("http://"):
                options["client_options"] = {"allow_http": True}
        with _explained(known.url):
            return from_url(known.url, **options)

    def _list(self, backend: Any) -> list[_Object]:
        """The files that can be read as rows, by path; hidden files, other formats and links out of the folder are not.

        Raises BadData where there is nothing, or too much.
        """
        found: list[_Object] = []
        with _explained(self._path or self._connection.url):
            for batch in backend.list(self._path or None):
                found += [_object(meta) for meta in batch if self._is_ours(meta["path"])]
                # A listing of a whole lake takes hours.
                if len(found) > _MOST_FILES:
                    break
            if self._path and not found:
                found = [_object(backend.head(self._path))] if self._is_ours(self._path) else []
        where = f"source.files, {self._path or 'all of the connection'}"
        if not found:
            raise BadData("there is no file that can be read", where=where, remedy="Check the path.")
        if len(found) > _MOST_FILES or sum(each.size for each in found) > _MOST_BYTES:
            raise BadData(
                f"these are more than {_MOST_FILES:,} files or {_MOST_BYTES >> 30} GiB",
                where=where,
                remedy="Name a folder with fewer files, or put them together.",
            )
        return sorted(found, key=lambda each: each.path)

    def _is_ours(self, path: str) -> bool:
        below = path.removeprefix(self._path) if self._path else f"/{path}"
        # A name that only begins like the path is another folder's or file's.
        if below and not below.startswith("/"):
            return False
        if any(part.startswith(".") for part in path.split("/")):
            return False
        if self._connection.url.startswith("file://"):
            root = Path(self._connection.url.removeprefix("file://")).resolve()
            if not (root / path).resolve().is_relative_to(root):
                return False
        try:
            kind_of(path)
        except BadData:
            return False
        return True


def _place(url: str) -> str:
    """``url`` with a slash at its end; a folder's path is resolved, as links and dots can give it many names."""
    if url.startswith("file://") or "://" not in url:
        url = f"file://{Path(url.removeprefix('file://')).resolve()}"
    return f"{url.rstrip('/')}/"


def _object(meta: Any) -> _Object:
    return _Object(path=meta["path"], size=meta["size"], mark=meta["e_tag"] or meta["last_modified"].isoformat())


def _seen(objects: list[_Object]) -> str:
    content = digest({"files": [[each.path, each.size, each.mark] for each in objects]})
    return f"{len(objects):,} file{'s' if len(objects) != 1 else ''}, {content[:16]}"


@contextmanager
def _explained(where: str) -> Iterator[None]:
    from obstore import exceptions

    try:
        yield
    except FileNotFoundError as error:
        raise BadData("there is no such file or folder", where=where, remedy="Check the path.") from error
    except (exceptions.BaseError, OSError, ValueError) as error:
        raise SourceUnavailable(
            f"the files cannot be read ({first_line(error)})",
            where=where,
            remedy="Check the connection's URL and rights. The source is read again later.",
        ) from error
