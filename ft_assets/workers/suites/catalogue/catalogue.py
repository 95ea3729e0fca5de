"""The catalogue's files: ``sources.yaml`` (repositories at one commit, each file by its SHA-256), and a file for each
suite in ``suites/``, named by its key."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import Field

from ft_assets.settings.keys import check_suite_key
from ft_assets.workers.suites.catalogue.conversions import Conversion
from ft_resources.canonical import canonical_json, sha256_bytes
from ft_resources.errors import UserError
from ft_resources.pinned_files import PinnedFile
from ft_resources.settings import Settings
from ft_resources.strict import nearest, read_strict

FOLDER = Path(__file__).parent
GROUPS = ("general", "code", "instruct", "safety")
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
    """A GitHub repository at one commit."""

    repo: str = Field(pattern=r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$", description="OWNER/NAME.")
    commit: str = Field(pattern=r"^[0-9a-f]{40}$", description="The commit.")
    folder: str = Field("", description="Folder of the repository that the files' names start from.")
    licence: str = Field(min_length=1, description="Licence of the data.")
    note: str = Field("", description="For people, such as whose copy this is.")
    files: Annotated[dict[str, SourceFile], Field(min_length=1)] = Field(description="The files by name.")

    def url_path(self, name: str) -> str:
        """Where file ``name`` is below raw.githubusercontent.com."""
        path = "/".join(part for part in (self.folder, name) if part)
        return f"{self.repo}/{self.commit}/{quote(path)}{'.gz' if self.files[name].packed else ''}"


class Entry(Settings):
    """One suite that can be installed."""

    group: Literal["general", "code", "instruct", "safety"] = Field(description="What it is installed with.")
    what: str = Field(min_length=1, description="What it is for.")
    paper: str = Field(pattern=r"^https://", description="Where it is described.")
    items: int = Field(gt=0, description="Items that are scored.")
    make: Conversion = Field(description="How its data are made of files of sources.")
    task: dict[str, Any] = Field(description="Its task file.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Catalogue:
    """All that can be installed: sources by name, suites by key."""

    sources: dict[str, Source]
    suites: dict[str, Entry]

    def chosen(self, names: Sequence[str]) -> list[str]:
        """The keys of the suites that ``names`` mean (groups, keys, or keys without version), each once, in order.

        Raises UserError with the nearest known name.
        """
        keys: dict[str, None] = {}
        for name in names:
            found = [key for key, suite in self.suites.items() if name in (suite.group, key, key.rpartition(".v")[0])]
            if not found:
                known = [*GROUPS, *(key.rpartition(".v")[0] for key in self.suites)]
                raise UserError(
                    f"the catalogue has no {name!r}; {nearest(name, known)}",
                    where=name,
                    remedy="ft suite catalogue shows what there is; register anything else with ft suite add.",
                )
            keys |= dict.fromkeys(found)
        return list(keys)

    def needs(self, key: str) -> list[str]:
        """The files that suite ``key`` is made of, each as SOURCE/NAME."""
        return self.suites[key].make.needs({name: list(source.files) for name, source in self.sources.items()})

    def sources_of(self, key: str) -> dict[str, Source]:
        """The sources that suite ``key`` takes files from, by name."""
        return {name: self.sources[name] for name in dict.fromkeys(each.split("/")[0] for each in self.needs(key))}

    def file(self, path: str) -> tuple[Source, str]:
        """The source of SOURCE/NAME, and NAME."""
        source, _, name = path.partition("/")
        return self.sources[source], name

    def origin(self, key: str) -> str:
        """What the store records as the suite's source: it stands for the recipe and every byte that goes in."""
        entry = self.suites[key]
        digests = {path: source.files[name].sha256 for path in self.needs(key) for source, name in [self.file(path)]}
        content = {"make": entry.make.model_dump(mode="json"), "task": entry.task, "files": digests}
        return f"catalogue:sha256:{sha256_bytes(canonical_json(content))}"


class _Sources(Settings):
    sources: dict[str, Source]


def read_catalogue(folder: Path | None = None) -> Catalogue:
    """The catalogue in ``folder``, by default the package's own."""
    folder = folder or FOLDER
    found = read_strict(_Sources, folder / "sources.yaml", what="the catalogue", remedy=REMEDY)
    suites = {
        check_suite_key(path.stem): read_strict(Entry, path, what="the catalogue", remedy=REMEDY)
        for path in sorted((folder / "suites").glob("*.yaml"))
    }
    return Catalogue(sources=found.sources, suites=suites)
