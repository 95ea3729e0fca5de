"""Suites whose data are on the Hub: their task files ship in ``hub/``, and whoever installs one names the commit.

Nobody has checked a commit for them, unlike for the files of ``sources.yaml``. The commit is the user's pin. What it
holds is verified against the Hub's own digests, and stored under the suite's key, which never means anything else.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from pydantic import Field, Strict

from ft_assets.settings.keys import check_suite_key
from ft_assets.workers.suites.catalogue import catalogue
from ft_assets.workers.suites.suites import TASK_FILE, RegisteredSuite, add_suite
from ft_resources.errors import BadRecipe, UserError
from ft_resources.hub import Hub, HuggingFaceHub
from ft_resources.settings import Settings
from ft_resources.store import Store
from ft_resources.strict import nearest, read_strict

_VARIANT = "VARIANT"
_PIN = re.compile(r"hub:(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)@(?P<commit>[0-9a-f]{40})", re.ASCII)
Patterns = Annotated[tuple[str, ...], Strict(False), Field(min_length=1)]


class HubEntry(Settings):
    """A suite, or one for each of its variants, whose key gets the variant's name: ``arithmetic-2da.v1``."""

    group: str = Field(description="What it is about.")
    what: str = Field(min_length=1, description="What it is for.")
    paper: str = Field(pattern=r"^https://", description="Where it is described.")
    licence: str = Field(min_length=1, description="Licence of the data, as their card has it.")
    repo: str = Field(pattern=r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$", description="The data set that lm-eval reads.")
    variants: dict[str, str] = Field({}, description="Name in the key to name in the files; none: a single suite.")
    files: dict[str, Patterns] = Field(
        description="Split to patterns of its file; the first that only one file has counts. VARIANT is the variant."
    )
    task: dict[str, Any] = Field(description="The task file, without its data.")


@dataclass(frozen=True, kw_only=True, slots=True)
class HubSuite:
    """One suite: ``files`` are the patterns of each split's file, ``task`` its task file without data."""

    entry: HubEntry
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
            task = {**entry.task, "task": f"{entry.task['task']}_{variant}" if variant else entry.task["task"]}
            found[key] = HubSuite(entry=entry, files=files, task=task)
    return found


def install_from_hub(store: Store, name: str, source: str, actor: str, *, hub: Hub | None = None) -> RegisteredSuite:
    """Fetch suite ``name`` (a key, or one without version) at ``source`` (``hub:ORG/NAME@COMMIT``), and register it.

    Raises UserError for an unknown name and what is no such source, BadRecipe for a data set without the suite's files
    or columns, and for a key that has other content; BadBase, HubUnavailable.
    """
    known = hub_suites()
    key = next((key for key in known if name in (key, key.rpartition(".v")[0])), None)
    if key is None:
        what = f"no suite {name!r} has its data on the Hub; {nearest(name, [key.rpartition('.v')[0] for key in known])}"
        remedy = "ft suite catalogue shows those that --from is for; for your own see: ft suite add."
        raise UserError(what, where=name, remedy=remedy)
    match = _PIN.fullmatch(source)
    if match is None:
        remedy = "Write hub:ORG/NAME@COMMIT, with the 40 hexadecimal digits of a commit; a branch or tag can move."
        raise UserError("this is no commit of a data set", where=source, remedy=remedy)
    suite, repo, commit = known[key], match["repo"], match["commit"]
    hub = hub or HuggingFaceHub(kind="dataset")
    task = {**suite.task, "dataset_path": repo, "revision": commit}
    task["metadata"] = {"paper": suite.entry.paper, "licence": f"{suite.entry.licence} (of {suite.entry.repo})"}
    task["dataset_kwargs"] = {"data_files": _files(suite, repo, commit, hub)}
    with TemporaryDirectory(prefix="ft-suite-") as scratch:
        (Path(scratch) / TASK_FILE).write_text(json.dumps(task, ensure_ascii=False), encoding="utf-8")
        return add_suite(store, Path(scratch), key, actor, hub=hub)


def refuse_unpinned(names: Iterable[str]) -> None:
    """Raise UserError, with the command's missing part, if a suite of these has its data on the Hub."""
    known = hub_suites()
    for name in names:
        for key, suite in known.items():
            if name in (key, key.rpartition(".v")[0]):
                raise UserError(
                    f"the data of {name} are on the Hub, and nobody pinned a commit for you",
                    where=name,
                    remedy=f"Choose one: ft suite install {name} --from hub:{suite.entry.repo}@COMMIT",
                )


def _files(suite: HubSuite, repo: str, commit: str, hub: Hub) -> dict[str, str]:
    """The file of each split."""
    there = hub.snapshot(repo, commit).files
    found = {}
    for split, patterns in suite.files.items():
        matches = [[name for name in there if fnmatchcase(name, pattern)] for pattern in patterns]
        (found[split],) = next((names for names in matches if len(names) == 1), [""])
        if not found[split]:
            raise BadRecipe(
                f"the data set has no single file {' or '.join(patterns)} at this commit",
                where=f"hub:{repo}@{commit}",
                remedy="Name a commit that has the data as files, such as one of the branch refs/convert/parquet; or "
                "write the task file yourself (ft suite add).",
            )
    return found
