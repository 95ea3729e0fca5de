"""The catalogue that ships: complete, pinned, and without data."""

import json
import os
from pathlib import Path

import pytest

from ft_assets import api
from ft_assets.workers.suites.catalogue.catalogue import FOLDER, GROUPS, read_catalogue
from ft_assets.workers.suites.catalogue.hub import hub_entries
from ft_assets.workers.suites.registered import get_suite
from ft_assets.workers.suites.suites import read_task
from ft_resources.canonical import digest
from ft_resources.store_marker import open_store

DATA = Path(os.environ.get("FT_REAL_DATA", ""))
# What each key stands for. An installed suite never changes: for another task or other files, make a new version.
ORIGINS = {
    "care.v1": "17837f2e19ada7da",
    "gsm8k.v1": "d2878afe878ecd83",
    "humaneval.v1": "7d8a84d2b22959cf",
    "ifeval.v1": "898e1598d6153fb2",
    "mmlu-1000.v1": "877fbbe0cd122a72",
    "mmlu-examples.v1": "da4d049651b454f1",
    "mmlu.v1": "16269bc6e511abfe",
    "offline-arithmetic.v1": "8dd250bf071aa86f",
    "offline-instructions.v1": "a24d75297a94495b",
    "offline-lists.v1": "9f6062daeb2fc782",
    "truthfulqa-mc1.v1": "64cdf89a8f525930",
    "truthfulqa-mc2.v1": "de3641345bb52070",
    "xstest.v1": "f687950ed83402bd",
}


def test_a_key_always_means_the_same_task_and_bytes() -> None:
    catalogue = read_catalogue()
    found = {key: catalogue.origin(key).rpartition(":")[2][:16] for key in catalogue.suites}
    assert found == ORIGINS, "raise the version in the file's name"


def test_every_group_has_a_suite_and_every_file_is_used() -> None:
    catalogue, hub = read_catalogue(), hub_entries().values()
    groups = {entry.group for entry in catalogue.suites.values()} | {entry.group for entry in hub}
    assert groups == set(GROUPS)
    used = {path for key in catalogue.suites for path in catalogue.needs(key)}
    assert used == {f"{name}/{file}" for name, source in catalogue.sources.items() for file in source.files}


def test_every_task_file_is_a_valid_one(tmp_path: Path) -> None:
    for key, entry in read_catalogue().suites.items():
        path = tmp_path / f"{key}.yaml"
        path.write_text(json.dumps(entry.task))
        read_task(path)
        assert "metadata" not in entry.task


def test_it_holds_no_data() -> None:
    files = [path for path in FOLDER.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert {path.suffix for path in files} == {".py", ".yaml"}
    assert sum(path.stat().st_size for path in files if path.suffix == ".yaml") < 64_000


@pytest.mark.realdata
def test_all_of_it_installs_from_a_folder_and_keeps_its_digests(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"), create=True)
    groups = [group for group in GROUPS if group != "multilingual"]
    done = api.install_suites(groups, offline=DATA, store=store, actor="ann")
    catalogue = read_catalogue()
    ours = {key for key, entry in catalogue.suites.items() if entry.group == "offline"}
    assert {each.key: each.items for each in done} == {key: each.items for key, each in catalogue.suites.items()}
    assert {each.key for each in done} == set(ORIGINS)
    theirs = {each.key: get_suite(store, each.key).digest for each in done if each.key not in ours}
    assert digest(theirs)[:16] == "a47d81518b070b3e"
