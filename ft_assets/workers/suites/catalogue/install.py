"""Install suites of the catalogue: fetch their files, check every byte, convert, register."""

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ft_assets.records.names import Name
from ft_assets.settings.shipped_suites import BOOKS
from ft_assets.workers.suites.catalogue.catalogue import Catalogue, Source, read_catalogue
from ft_assets.workers.suites.suites import TASK_FILE, RegisteredSuite, add_suite
from ft_resources.artifacts import InputRef
from ft_resources.errors import BadRecipe
from ft_resources.pinned_files import SourceUnavailable, fetch, save
from ft_resources.store import Store

_AT_ONCE = 8
# The suites that gates stand on in a store without others: one that ships, and one that is made.
_BOOKS_FOLDER = Path(__file__).parents[3] / "demo" / "suites" / "book_cloze"
MADE = {"licence": "Apache-2.0", "source": "made by this package"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Files:
    """Verified copies of the catalogue's files.

    Args:
        scratch: folder for the copies.
        offline: folder that has them as SOURCE/NAME; None fetches from GitHub or its mirror.
    """

    catalogue: Catalogue
    scratch: Path
    offline: Path | None

    def get(self, path: str) -> Path:
        """The copy of SOURCE/NAME. Raises SourceUnavailable if it cannot be obtained, BadRecipe for wrong bytes."""
        target = self.scratch / path
        if not target.exists():
            source, name = self.catalogue.file(path)
            if not self._packaged(source, name, target):
                self._copy(path, source, name, target) if self.offline else self._fetch(source, name, target)
        return target

    def _packaged(self, source: Source, name: str, target: Path) -> bool:
        """Whether an installed package has the file; another version of it may have other bytes."""
        file, found = source.files[name], source.packaged(name)
        if found is None:
            return False
        with found.open("rb") as stream, suppress(BadRecipe):
            save(stream, target, file.pinned, packed=file.packed, where=str(found))
        return target.exists()

    def _fetch(self, source: Source, name: str, target: Path) -> None:
        file = source.files[name]
        if not source.repo:
            raise SourceUnavailable(
                f"{name} comes with the Python package {source.package} ({source.note}), which is not installed here",
                where=source.origin,
                remedy=f"Install it (pip install {source.package}), or give a folder with the file: --offline FOLDER.",
            )
        remedy = (
            "Try again; or fetch the files elsewhere, and give their folder with --offline FOLDER "
            "(ft suite catalogue --files names them); or set FT_SUITES_URL to a mirror."
        )
        fetch(source.url(name), target, file.pinned, packed=file.packed, remedy=remedy)

    def _copy(self, path: str, source: Source, name: str, target: Path) -> None:
        file = source.files[name]
        # A packed file may have been unpacked after it was fetched.
        for given, packed in ((f"{path}.gz", True), (path, False)) if file.packed else ((path, False),):
            found = Path(self.offline or "") / given
            if found.is_file():
                with found.open("rb") as stream:
                    return save(stream, target, file.pinned, packed=packed, where=str(found))
        remedy = f"Fetch {source.url(name)} and put it there."
        raise SourceUnavailable(f"there is no file {path}", where=str(self.offline), remedy=remedy)


def install(
    store: Store, catalogue: Catalogue, keys: Sequence[str], actor: str, *, offline: Path | None = None
) -> list[RegisteredSuite]:
    """Register the catalogue's suites ``keys``; nothing is fetched for those that are installed.

    A suite is registered once all its files are verified, so an error leaves no partial suite. Raises BadRecipe for a
    key that has other content and for files with wrong bytes, SourceUnavailable.
    """
    there = {key: found for key in keys if (found := installed(store, catalogue, key))}
    with TemporaryDirectory(prefix="ft-suites-") as scratch:
        files = Files(catalogue=catalogue, scratch=Path(scratch) / "files", offline=offline)
        return [there.get(key) or _install(store, files, key, Path(scratch) / key, actor) for key in keys]


def add_own(store: Store, keys: Iterable[str], actor: str) -> None:
    """Register those of ``keys`` that are not registered and need nothing but this package."""
    missing = [key for key in keys if Name("suite").find(store, key) is None]
    if BOOKS in missing:
        add_suite(store, _BOOKS_FOLDER, BOOKS, actor)
    if missing := [key for key in missing if key != BOOKS]:
        catalogue = read_catalogue()
        made = [key for key in missing if key in catalogue.suites and not catalogue.needs(key)]
        install(store, catalogue, made, actor)


def write_suite(files: Files, key: str, folder: Path) -> Path:
    """Write suite ``key`` into the new folder ``folder``: its task file and its data. Raises as ``Files.get``."""
    catalogue, paths = files.catalogue, files.catalogue.needs(key)
    entry, sources = catalogue.suites[key], catalogue.sources_of(key).values()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = dict(zip(paths, pool.map(files.get, paths), strict=True))
    folder.mkdir(parents=True)
    entry.make.write(found, folder)
    metadata = {"paper": entry.paper} if entry.paper else {}
    metadata |= (
        {
            "licence": ", ".join(dict.fromkeys(source.licence for source in sources)),
            "source": ", ".join(source.origin for source in sources),
        }
        if paths
        else MADE
    )
    # JSON is valid YAML.
    task = json.dumps({**entry.task, "metadata": metadata}, indent=2, ensure_ascii=False)
    (folder / TASK_FILE).write_text(task + "\n", encoding="utf-8")
    return folder


def installed(store: Store, catalogue: Catalogue, key: str) -> RegisteredSuite | None:
    """The suite ``key`` if it is installed. Raises BadRecipe if somebody registered another one under this key."""
    record = Name("suite").find(store, key)
    if record is None:
        return None
    if record["source"] != catalogue.origin(key):
        raise BadRecipe(
            f"suite {key} is already registered, and not from this catalogue",
            where=f"suite key {key!r}",
            remedy="It stays what it is. Install the others by name, or register this one's data under another key.",
        )
    ref = InputRef(address=record["address"], digest=record["digest"])
    return RegisteredSuite(key=key, ref=ref, items=catalogue.suites[key].items, created=False)


def _install(store: Store, files: Files, key: str, folder: Path, actor: str) -> RegisteredSuite:
    done = add_suite(store, write_suite(files, key, folder), key, actor, source=files.catalogue.origin(key))
    assert done.items == files.catalogue.suites[key].items, "the catalogue's number of items is wrong"
    return done
