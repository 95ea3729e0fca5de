"""Suites whose data are on the Hub: fetched once, from one commit, and stored in the suite; offline from then on.

A task file with ``dataset_path: org/name`` and ``revision`` (a commit, 40 hexadecimal digits) names files of that data
set. They become files of the suite, and the task file reads them there.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ft_assets.workers.suites.suite_task import DATA_ENDINGS
from ft_resources.errors import BadRecipe
from ft_resources.hub import Hub, HuggingFaceHub, verify_file

MOST_BYTES = 1 << 30
_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_FILE = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9._-]*/)*[A-Za-z0-9_][A-Za-z0-9._-]*\.(?:jsonl?|csv|parquet)")


def is_remote(task: Any) -> bool:
    """Whether a task file's value names a data set on the Hub."""
    return isinstance(task, dict) and isinstance(task.get("dataset_path"), str) and "/" in task["dataset_path"]


def fetch(
    task: Mapping[str, Any], folder: Path, present: Mapping[str, Path], where: str, hub: Hub | None
) -> tuple[dict[str, Path], str]:
    """The task file that reads local data, the data files in ``folder`` by stored name, and their source.

    Args:
        present: the other files of the suite, whose names are taken.
        hub: the hub to use; None for the public hub or its mirror.

    Raises BadRecipe for a revision that can move and for files that a suite may not hold, BadBase for files that the
    Hub does not have or that arrive changed, HubUnavailable.
    """
    repo, commit = str(task["dataset_path"]), task.get("revision")
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit) or not _REPO.fullmatch(repo):
        raise BadRecipe(
            f"dataset_path: {repo!r} is fetched from the Hub, and its revision is not a commit",
            where=where,
            remedy="Pin it: revision with the 40 hexadecimal digits of a commit of ORG/NAME, or put the data beside "
            "the task file.",
        )
    names = _named_files(task, where)
    stored = {name: name.replace("/", "_") for name in names}
    if len(set(stored.values()) | set(present)) < len(names) + len(present):
        raise BadRecipe("two data files have the same name", where=where, remedy="Rename the local one.")
    fetch_files(hub or HuggingFaceHub(kind="dataset"), repo, commit, {name: folder / stored[name] for name in names})
    source, files = f"hub:{repo}@{commit}", {stored[name]: folder / stored[name] for name in names}
    task_file = folder / "task.yaml"
    # JSON is valid YAML, and marks texts unambiguously.
    task_file.write_text(
        json.dumps(_local(task, stored, source, where), indent=2, ensure_ascii=False), encoding="utf-8"
    )
    return {"task.yaml": task_file, **files}, source


def fetch_files(hub: Hub, repo: str, commit: str, targets: Mapping[str, Path]) -> None:
    """Download files of a data set by name, each to its target, and check every byte. Raises as ``fetch``."""
    source, snapshot = f"hub:{repo}@{commit}", hub.snapshot(repo, commit)
    missing = [name for name in targets if name not in snapshot.files]
    if missing or snapshot.commit != commit:
        what = (
            f"the data set has no file {missing[0]!r} at this commit"
            if missing
            else "this is not a commit of the data set"
        )
        raise BadRecipe(what, where=source, remedy="Name files that the data set's page lists, by their whole path.")
    if (size := sum(snapshot.files[name].size for name in targets)) > MOST_BYTES:
        remedy = "Choose fewer files; a suite is copied to every worker that scores it."
        raise BadRecipe(
            f"the files have {size:,} bytes, and a suite at most {MOST_BYTES:,}", where=source, remedy=remedy
        )
    for name, target in targets.items():
        hub.download(repo, commit, name, target)
        verify_file(target, snapshot.files[name], source)


def _named_files(task: Mapping[str, Any], where: str) -> list[str]:
    if "kind" in task:
        named: Any = [task.get("file")]
    else:
        data = task.get("dataset_kwargs")
        given = data.get("data_files") if isinstance(data, dict) else None
        named = list(given.values()) if isinstance(given, dict) else [given]
    for name in named:
        if not isinstance(name, str) or not _FILE.fullmatch(name) or ".." in name:
            raise BadRecipe(
                f"{name!r} is not a data file of a data set",
                where=where,
                remedy="Name .parquet, .jsonl, .json or .csv files by their whole path, in dataset_kwargs.data_files, "
                "or in file where the task has a kind.",
            )
    return sorted(set(named))


def _local(task: Mapping[str, Any], stored: Mapping[str, str], source: str, where: str) -> dict[str, Any]:
    """The task that reads the stored files and names their source."""
    metadata = task.get("metadata", {})
    if not isinstance(metadata, dict):
        raise BadRecipe("metadata is not a mapping", where=where, remedy="Write names and values under it.")
    found = {key: value for key, value in task.items() if key not in ("dataset_path", "revision")}
    found["metadata"] = {**metadata, "source": source}
    if "kind" in task:
        return {**found, "file": stored[task["file"]]}
    formats = {name for name, endings in DATA_ENDINGS.items() if any(file.endswith(endings) for file in stored)}
    if len(formats) != 1:
        remedy = "Name files of one format."
        raise BadRecipe("the data files have several formats", where=where, remedy=remedy)
    given = task["dataset_kwargs"]["data_files"]
    local = stored[given] if isinstance(given, str) else {split: stored[name] for split, name in given.items()}
    return {**found, "dataset_path": formats.pop(), "dataset_kwargs": {**task["dataset_kwargs"], "data_files": local}}
