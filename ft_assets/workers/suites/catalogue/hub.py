"""Suites whose data are on the Hub: their task files ship in ``hub/``, and users name the commit when they install one.

Unlike for the files of ``sources.yaml``, nobody has reviewed a commit: the user pins it. Its files are verified against
the Hub's own digests, and stored under the suite's key, whose content never changes.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from pydantic import Field, Strict

from ft_assets.records.names import Name
from ft_assets.settings.keys import check_suite_key
from ft_assets.workers.suites.catalogue import catalogue
from ft_assets.workers.suites.catalogue.conversions import Conversion
from ft_assets.workers.suites.registered import items_of
from ft_assets.workers.suites.suite_source import fetch_files
from ft_assets.workers.suites.suites import TASK_FILE, RegisteredSuite, add_suite
from ft_resources.artifacts import InputRef
from ft_resources.errors import BadRecipe, UserError
from ft_resources.hub import Hub, HuggingFaceHub
from ft_resources.settings import Settings
from ft_resources.store import Store
from ft_resources.strict import read_strict

_VARIANT = "VARIANT"
_PIN = re.compile(r"hub:(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)@(?P<commit>[0-9a-f]{40})", re.ASCII)
Patterns = Annotated[tuple[str, ...], Strict(False), Field(min_length=1)]


class HubEntry(Settings):
    """A suite, or one for each of its variants, whose key gets the variant's name: ``arithmetic-2da.v1``."""

    group: catalogue.Group = Field(description="What it is installed with.")
    what: str = Field(min_length=1, description="What it is for.")
    paper: str = Field(pattern=r"^https://", description="Where it is described.")
    licence: str = Field(min_length=1, description="Licence of the data, as their card has it.")
    repo: str = Field(pattern=r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$", description="The data set that lm-eval reads.")
    variants: dict[str, str] = Field({}, description="Name in the key to name in the files; none: a single suite.")
    files: dict[str, Patterns] = Field(
        description="Split to patterns of its file; the first that matches one file counts. VARIANT is the variant."
    )
    make: Conversion | None = Field(None, description="How the files, hub/SPLIT, become its data; null: unchanged.")
    task: dict[str, Any] = Field(description="The task file, without its data.")


@dataclass(frozen=True, kw_only=True, slots=True)
class HubSuite:
    """One suite: ``files`` are the patterns of each split's file, ``task`` its task file without data; ``family`` is
    the name that all variants of an entry share."""

    entry: HubEntry
    family: str
    files: Mapping[str, tuple[str, ...]]
    task: Mapping[str, Any]


def hub_entries() -> dict[str, HubEntry]:
    """The entries by key; ``*`` in it stands for a variant."""
    found = {}
    for path in sorted((catalogue.FOLDER / "hub").glob("*.yaml")):
        entry = read_strict(HubEntry, path, what="the catalogue", remedy=catalogue.REMEDY)
        name, _, version = path.stem.rpartition(".")
        found[f"{name}-*.{version}" if entry.variants else path.stem] = entry
    return found


def hub_suites() -> dict[str, HubSuite]:
    """The suites by key."""
    found = {}
    for pattern, entry in hub_entries().items():
        for variant, inside in (entry.variants or {"": ""}).items():
            key = check_suite_key(pattern.replace("*", variant))
            files = {
                split: tuple(each.replace(_VARIANT, inside) for each in patterns)
                for split, patterns in entry.files.items()
            }
            task = {**entry.task, **({"task": f"{entry.task['task']}_{variant}"} if variant else {})}
            family = pattern.rpartition(".v")[0].removesuffix("-*")
            found[key] = HubSuite(entry=entry, family=family, files=files, task=task)
    return found


def parse_source(source: str) -> tuple[str, str]:
    """Data set and commit of ``hub:ORG/NAME@COMMIT``. Raises UserError for anything else."""
    match = _PIN.fullmatch(source)
    if match is None:
        remedy = "Write hub:ORG/NAME@COMMIT, with the 40 hexadecimal digits of a commit; a branch or tag can move."
        raise UserError("this is not a commit of a data set", where=source, remedy=remedy)
    return match["repo"], match["commit"]


def installed_from_hub(store: Store, key: str) -> RegisteredSuite | None:
    """The suite ``key`` if it has its data from the Hub and was installed before."""
    record = Name("suite").find(store, key)
    if record is None or not str(record["source"]).startswith("hub:"):
        return None
    ref = InputRef(address=record["address"], digest=record["digest"])
    return RegisteredSuite(key=key, ref=ref, items=items_of(store, key), created=False)


def install_from_hub(
    store: Store,
    key: str,
    suite: HubSuite,
    source: str,
    actor: str,
    *,
    get: Callable[[str], Path],
    hub: Hub | None = None,
) -> RegisteredSuite:
    """Fetch ``suite`` at ``source`` (``hub:ORG/NAME@COMMIT``), and register it as ``key``.

    Args:
        get: the file SOURCE/NAME of the catalogue, for suites that also have data from there.
        hub: where the files are; None for the public Hub or its mirror.

    Raises UserError for any other source, BadRecipe for a data set without the suite's files or columns, and for a key
    that has other content; BadBase, HubUnavailable.
    """
    repo, commit = parse_source(source)
    hub = hub or HuggingFaceHub(kind="dataset")
    files, task = _files(suite, repo, commit, hub), dict(suite.task)
    metadata = {"paper": suite.entry.paper, "licence": f"{suite.entry.licence} (of {suite.entry.repo})"}
    with TemporaryDirectory(prefix="ft-suite-") as scratch:
        folder = Path(scratch) / "suite"
        folder.mkdir()
        if suite.entry.make is None:
            task |= {"dataset_path": repo, "revision": commit, "metadata": metadata}
            data = {"file": next(iter(files.values()))} if "kind" in task else {"dataset_kwargs": {"data_files": files}}
            task |= data
            _write_task(folder, task)
            return add_suite(store, folder, key, actor, hub=hub)
        found = {f"hub/{split}": Path(scratch) / f"{split}{Path(name).suffix}" for split, name in files.items()}
        fetch_files(hub, repo, commit, {name: found[f"hub/{split}"] for split, name in files.items()})
        found |= {each: get(each) for each in suite.entry.make.needs({}) if each not in found}
        suite.entry.make.write(found, folder)
        _write_task(folder, {**task, "metadata": {**metadata, "source": source}})
        return add_suite(store, folder, key, actor, source=source)


def _write_task(folder: Path, task: Mapping[str, Any]) -> None:
    (folder / TASK_FILE).write_text(json.dumps(task, ensure_ascii=False), encoding="utf-8")


def files_of(suite: HubSuite, names: Collection[str]) -> dict[str, str]:
    """The file of each split among a data set's files; "" if no pattern matches exactly one."""
    found = {}
    for split, patterns in suite.files.items():
        matches = ([name for name in names if fnmatchcase(name, pattern)] for pattern in patterns)
        (found[split],) = next((each for each in matches if len(each) == 1), [""])
    return found


def _files(suite: HubSuite, repo: str, commit: str, hub: Hub) -> dict[str, str]:
    """The file of each split."""
    found = files_of(suite, hub.snapshot(repo, commit).files)
    for split, name in found.items():
        if not name:
            raise BadRecipe(
                f"the data set has no single file {' or '.join(suite.files[split])} at this commit",
                where=f"hub:{repo}@{commit}",
                remedy="Name a commit that has the data as files, such as one of the branch refs/convert/parquet; or "
                "write the task file yourself (ft suite add).",
            )
    return found
