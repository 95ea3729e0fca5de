"""The catalogue's files: ``sources.yaml`` (repositories at one commit, each file by its SHA-256), and a file for each
suite in ``suites/``, named by its key."""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import quote

from pydantic import Field, model_validator

from ft_assets.settings.keys import check_suite_key
from ft_assets.workers.suites.catalogue.conversions import Conversion
from ft_resources.canonical import canonical_json, sha256_bytes
from ft_resources.environment import suites_url
from ft_resources.pinned_files import PinnedFile
from ft_resources.settings import Settings
from ft_resources.strict import read_strict

FOLDER = Path(__file__).parent
Group = Literal["general", "code", "instruct", "safety", "multilingual", "offline"]
GROUPS: tuple[Group, ...] = get_args(Group)
REMEDY = "This file is part of the installation: install the package again."


class SourceFile(Settings):
    """One file, as it is used."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of its bytes, unpacked.")
    bytes: int = Field(gt=0, le=64 << 20, description="Its size, unpacked.")
    packed: bool = Field(False, description="The repository has it as NAME.gz.")

    @property
    def pinned(self) -> PinnedFile:
        return PinnedFile(sha256=self.sha256, size=self.bytes)


class Source(Settings):
    """A GitHub repository at one commit, a Python package that has the files, or both."""

    repo: str = Field("", pattern=r"^([A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+)?$", description="OWNER/NAME.")
    commit: str = Field("", pattern=r"^([0-9a-f]{40})?$", description="The commit.")
    folder: str = Field("", description="Folder of the repository that the files' names start from.")
    package: str = Field("", description="Python package that has the files; installed, nothing is fetched.")
    package_folder: str = Field("", description="Its folder that the files' names start from.")
    licence: str = Field(min_length=1, description="Licence of the data.")
    note: str = Field("", description="For people, such as whose copy this is.")
    files: Annotated[dict[str, SourceFile], Field(min_length=1)] = Field(description="The files by name.")

    @model_validator(mode="after")
    def _is_somewhere(self) -> Self:
        if bool(self.repo) != bool(self.commit) or not (self.repo or self.package):
            raise ValueError("repo: name a repository with its commit, or a package")
        return self

    @property
    def origin(self) -> str:
        """The source in short, such as ``github:ORG/NAME@COMMIT``."""
        return f"github:{self.repo}@{self.commit}" if self.repo else f"package:{self.package}"

    def url(self, name: str) -> str:
        """The URL of file ``name``, or the package that has it."""
        if not self.repo:
            return self.origin
        path = "/".join(part for part in (self.folder, name) if part)
        return f"{suites_url()}/{self.repo}/{self.commit}/{quote(path)}{self._ending(name)}"

    def packaged(self, name: str) -> Path | None:
        """File ``name`` of the installed package; None without the package, or in a version that has no such file."""
        if not self.package:
            return None
        try:
            found = distribution(self.package).locate_file(f"{self.package_folder}/{name}{self._ending(name)}")
        except PackageNotFoundError:
            return None
        return Path(str(found)) if Path(str(found)).is_file() else None

    def _ending(self, name: str) -> str:
        return ".gz" if self.files[name].packed else ""


class Entry(Settings):
    """One suite that can be installed."""

    group: Group = Field(description="What it is installed with.")
    what: str = Field(min_length=1, description="What it is for.")
    paper: str = Field("", pattern=r"^(https://.+)?$", description="Where it is described.")
    items: int = Field(gt=0, description="Items that are scored.")
    make: Conversion = Field(description="How its data are made of files of sources.")
    task: dict[str, Any] = Field(description="Its task file.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Catalogue:
    """All that can be installed: sources by name, suites by key."""

    sources: dict[str, Source]
    suites: dict[str, Entry]

    def needs(self, key: str) -> list[str]:
        """The files that suite ``key`` is made of, each as SOURCE/NAME."""
        return self.suites[key].make.needs({name: list(source.files) for name, source in self.sources.items()})

    def sources_of(self, key: str) -> dict[str, Source]:
        """The sources that suite ``key`` takes files from, by name."""
        return {name: self.sources[name] for name in dict.fromkeys(each.split("/")[0] for each in self.needs(key))}

    def lacks_package(self, key: str, offline: Path | None) -> str:
        """The package that suite ``key`` needs, if it is not installed and ``offline`` lacks its files; else ""."""
        for path in self.needs(key):
            source, name = self.file(path)
            laid = offline is not None and any((offline / each).is_file() for each in (path, f"{path}.gz"))
            if not (source.repo or source.packaged(name) or laid):
                return source.package
        return ""

    def file(self, path: str) -> tuple[Source, str]:
        """The source of SOURCE/NAME, and NAME."""
        source, _, name = path.partition("/")
        return self.sources[source], name

    def origin(self, key: str) -> str:
        """The suite's source in the store: a digest of its conversion, its task file and all its data."""
        entry = self.suites[key]
        digests = {path: source.files[name].sha256 for path in self.needs(key) for source, name in [self.file(path)]}
        content = {"make": entry.make.model_dump(mode="json"), "task": entry.task, "files": digests}
        return f"catalogue:sha256:{sha256_bytes(canonical_json(content))}"


class _Sources(Settings):
    sources: dict[str, Source]


def read_catalogue() -> Catalogue:
    """The package's catalogue."""
    found = read_strict(_Sources, FOLDER / "sources.yaml", what="the catalogue", remedy=REMEDY)
    suites = {
        check_suite_key(path.stem): read_strict(Entry, path, what="the catalogue", remedy=REMEDY)
        for path in sorted((FOLDER / "suites").glob("*.yaml"))
    }
    return Catalogue(sources=found.sources, suites=suites)
