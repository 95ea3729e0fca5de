"""Evaluation suites: a task file and its data, named, immutable and addressed by content."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ft_assets.records.named import add_named
from ft_assets.settings.keys import check_suite_key
from ft_assets.workers.suites.asked import Asked, asked_by_task, asked_by_texts
from ft_assets.workers.suites.kinds.registry import KINDS, kind_of
from ft_assets.workers.suites.overlap import all_texts
from ft_assets.workers.suites.registered import ASSETS, Role
from ft_assets.workers.suites.safety_suite import SAFETY, Kind, Prompt, SafetyTask, read_prompts
from ft_assets.workers.suites.suite_items import check_items
from ft_assets.workers.suites.suite_rows import template_rows, with_shared
from ft_assets.workers.suites.suite_source import fetch, is_remote
from ft_assets.workers.suites.suite_task import DATA_ENDINGS, SuiteTask
from ft_resources.artifacts import MANIFEST, InputRef
from ft_resources.errors import BadRecipe
from ft_resources.hub import Hub
from ft_resources.settings import Settings
from ft_resources.store import Store
from ft_resources.strict import nearest, parse_strict, parse_yaml, read_text

TASK_FILE = "task.yaml"
_DATA_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9._-]*\.(?:json|jsonl|csv|txt|parquet)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class RegisteredSuite:
    """The result of registering; ``created`` is False if the same suite already existed."""

    key: str
    ref: InputRef
    items: int
    created: bool


def add_suite(
    store: Store, folder: Path, key: str, actor: str, *, hub: Hub | None = None, source: str | None = None
) -> RegisteredSuite:
    """Register ``folder`` (one task file ``*.yaml``, for lm-eval or with a ``kind``, and the data it reads).

    Data from the Hub (``suite_source.py``) are fetched from ``hub``, by default the public one, and stored with the
    rest. ``source`` is where the folder comes from. Nothing is written if anything is wrong. Raises BadRecipe for a
    folder that is not a suite, or if other content has the key; UserError for a malformed key; BadBase and
    HubUnavailable for data that is not available.
    """
    check_suite_key(key)
    files, source = _list_files(folder), source or str(folder)
    value = _read_value(files[TASK_FILE])
    if not is_remote(value):
        return _add(store, folder, files, key, source, actor)
    others = {name: path for name, path in files.items() if name != TASK_FILE}
    with TemporaryDirectory(prefix="ft-suite-") as scratch:
        fetched, source = fetch(value, Path(scratch), others, str(files[TASK_FILE]), hub)
        return _add(store, folder, {**others, **fetched}, key, source, actor)


def _add(store: Store, folder: Path, files: dict[str, Path], key: str, source: str, actor: str) -> RegisteredSuite:
    task = read_task(files[TASK_FILE])
    role: Role = "suite"
    if isinstance(task, SafetyTask):
        kind, role = SAFETY, "safety"
        items = sum(len(prompts) for prompts in read_prompts(task, files, str(folder)).values())
    elif isinstance(task, SuiteTask):
        kind, items = task.output_type, _check_data(task, files, str(folder))
    else:
        checker = kind_of(task)
        found = checker.read(task, files, str(folder))
        kind, items, role = checker.name, len(found), "suite" if checker.is_scored(found) else "shown"
    facts = {"items": items, "kind": kind}
    ref, created = add_named(store, "suite", key, files, asset=ASSETS[role], source=source, facts=facts, actor=actor)
    return RegisteredSuite(key=key, ref=ref, items=items, created=created)


def safety_prompts(folder: Path) -> tuple[SafetyTask, dict[Kind, list[Prompt]]]:
    """The task and the prompts of the safety suite in ``folder``. Raises BadRecipe if it is not a safety suite."""
    task, where = read_task(folder / TASK_FILE), str(folder)
    if not isinstance(task, SafetyTask):
        raise BadRecipe(
            "this is not a safety suite", where=where, remedy="Write kind: safety, with harmful and benign."
        )
    return task, read_prompts(task, suite_files(folder), where)


def suite_files(folder: Path) -> dict[str, Path]:
    """The files of a stored suite by name."""
    return {path.name: path for path in sorted(folder.iterdir())}


def scored_texts(folder: Path) -> list[str]:
    """Every text of the items that the suite in ``folder`` scores: questions, choices, all columns."""
    return [text for texts in scored_items(folder) for text in texts]


def scored_items(folder: Path) -> list[list[str]]:
    """The texts of each item that the suite in ``folder`` scores, without its id."""
    task = read_task(folder / TASK_FILE)
    if isinstance(task, SafetyTask):
        return [[prompt.text] for prompts in safety_prompts(folder)[1].values() for prompt in prompts]
    if isinstance(task, SuiteTask):
        rows = _read_rows(folder / task.data_files[task.scored_split])
        return [list(all_texts({name: value for name, value in row.items() if name != "id"})) for _, row in rows]
    return [list(item.texts) for item in kind_of(task).read(task, suite_files(folder), str(folder))]


def asked_items(folder: Path) -> list[Asked]:
    """What each item that the suite in ``folder`` scores asks."""
    task = read_task(folder / TASK_FILE)
    if isinstance(task, SuiteTask):
        return asked_by_task(task, [row for _, row in _read_rows(folder / task.data_files[task.scored_split])])
    return asked_by_texts(scored_items(folder))


def _list_files(folder: Path) -> dict[str, Path]:
    """Stored name to path; the one YAML file becomes ``task.yaml``. Hidden files are left out."""
    where = str(folder)
    if not folder.is_dir():
        raise BadRecipe("there is no such folder", where=where, remedy="Give the path of the suite's folder.")
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        name = TASK_FILE if path.suffix in (".yaml", ".yml") else path.name
        if path.is_symlink() or not path.is_file():
            remedy = "Put copies of plain files into one flat folder."
            raise BadRecipe(f"{path.name} is a link or a folder", where=where, remedy=remedy)
        if name in files:
            raise BadRecipe("there is more than one YAML file", where=where, remedy="Keep one task file per suite.")
        if name != TASK_FILE and (not _DATA_NAME.fullmatch(name) or name == MANIFEST):
            remedy = "A suite holds a task file (*.yaml) and data (.json, .jsonl, .csv, .txt, .parquet), and no code."
            raise BadRecipe(f"{path.name} may not be part of a suite", where=where, remedy=remedy)
        files[name] = path
    if TASK_FILE not in files:
        remedy = "Add lm-eval's task file, or one with a kind, such as kind: safety."
        raise BadRecipe("there is no task file (*.yaml)", where=where, remedy=remedy)
    return files


def read_task(path: Path) -> Settings:
    """The task file at ``path``: a SuiteTask, a SafetyTask or a kind's task. Raises BadRecipe for anything else."""
    where, value = str(path), _read_value(path)
    if not isinstance(value, dict) or "kind" not in value:
        return parse_strict(SuiteTask, value, where)
    tasks: dict[str, type[Settings]] = {SAFETY: SafetyTask, **{name: kind.task for name, kind in KINDS.items()}}
    name = str(value["kind"])
    if name not in tasks:
        remedy = "Write a known kind, or none for a task file of lm-eval."
        raise BadRecipe(f"there is no kind {name!r}; {nearest(name, sorted(tasks))}", where=where, remedy=remedy)
    return parse_strict(tasks[name], value, where)


def _read_value(path: Path) -> Any:
    where = str(path)
    text = read_text(path, where)
    if "!function" in text:
        remedy = "Prepare the data beforehand, so that columns and Jinja text suffice."
        raise BadRecipe("!function runs code; a suite may not", where=where, remedy=remedy)
    return parse_yaml(text, where)


def _check_data(task: SuiteTask, files: Mapping[str, Path], where: str) -> int:
    """The number of scored items. Raises BadRecipe for data files that are elsewhere, missing or in another format, and
    for items that cannot be scored."""
    endings = DATA_ENDINGS[task.dataset_path]
    words = {"json": "JSON lines", "csv": "CSV", "parquet": "Parquet"}[task.dataset_path]
    named = {f"dataset_kwargs.data_files.{split}": name for split, name in task.data_files.items()}
    for place, name in (named | ({"shared.file": task.shared.file} if task.shared else {})).items():
        if name not in files or not name.endswith(endings):
            raise BadRecipe(
                f"{place}: {name!r} is not a {words} file of this folder",
                where=where,
                remedy=f"Name a {' or '.join(endings)} file next to the task file.",
            )
    rows = {split: _read_rows(files[name]) for split, name in task.data_files.items()}
    items = rows[task.scored_split]
    if task.shared:
        items = list(with_shared(items, files[task.shared.file], task.shared.by))
    if not items:
        raise BadRecipe("the scored split has no items", where=where, remedy="Add items to its data file.")
    check_items(task, items)
    return len(items)


def _read_rows(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Each row of a data file, with its place; ids, if rows have them, are unique."""
    rows: list[tuple[str, dict[str, Any]]] = []
    ids: set[str] = set()
    remedy = "Give every item a unique id, or none an id."
    for where, row in template_rows(path):
        found = row.get("id")
        # Once all rows are one table, a row without an id has null there, and so would the next one.
        if rows and (found is None) != (rows[0][1].get("id") is None):
            raise BadRecipe("some items have an id and others none", where=where, remedy=remedy)
        if str(found) in ids:
            raise BadRecipe("an earlier item has this id", where=where, remedy=remedy)
        ids |= set() if found is None else {str(found)}
        rows.append((where, row))
    return rows
