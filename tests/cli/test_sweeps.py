"""Sweeps and suites on the command line, as far as nothing is trained."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from ft_assets.control.sweeps.trial_retirement import mark_decided
from ft_assets.graph.retire_trials import retire_trials
from ft_assets.workers.suites.catalogue import catalogue as catalogues
from tests.cli.conftest import DATASET, Ft
from tests.e2e.project import Project
from tests.fake_hub import FakeHub
from tests.workers.suites.hub_rows import commit_of, rows_of
from tests.workers.suites.made_catalogue import COMMIT, FILES, Mirror, mirror, write_catalogue, write_files

TRIALS = ["rates-t01.v1", "rates-t02.v1"]


@pytest.fixture
def recipe(project: Project):
    path = project.recipe("rates.v1", sweep={"search": "grid", "parameters": {"training.warmup_ratio": [0.0, 0.1]}})
    assert "warmup_ratio" not in path.read_text().split("sweep:")[0]
    return path


def test_a_sweep_is_registered_with_its_trials_which_are_partitions_to_backfill(
    recipe, ft: Ft, instance: dg.DagsterInstance
) -> None:
    added = ft("recipe", "add", recipe)
    assert added.stdout == "rates.v1\n"
    assert "a sweep of 2 trials" in added.stderr
    assert instance.get_dynamic_partitions("recipe") == ["rates.v1", *TRIALS]
    assert not any(trial in ft("recipe", "list").stdout for trial in TRIALS)
    assert all(trial in ft("recipe", "list", "--trials").stdout for trial in TRIALS)
    shown = ft("recipe", "show", "rates.v1").stdout
    assert [line.split()[:3] for line in shown.splitlines() if "a trial of this sweep" in line] == [
        ["rates-t01.v1", "training.warmup_ratio", "0"],
        ["rates-t02.v1", "training.warmup_ratio", "0.1"],
    ]
    assert "0.1" in next(
        line for line in ft("recipe", "show", TRIALS[1]).stdout.splitlines() if "training.warmup_ratio" in line
    )


def test_a_trial_alone_is_no_wish_and_a_mistake_says_so(recipe, ft: Ft, pair: tuple[str, str]) -> None:
    ft("recipe", "add", recipe)
    refused = ft("submit", DATASET, TRIALS[0])
    assert refused.exit_code == 2
    assert "only a sweep's winner is scored on the holdout" in refused.stderr
    asked = ft("submit", DATASET, "rates.v1")
    assert asked.exit_code == 0
    assert "2 trials" in asked.stderr
    shown = ft("status", asked.stdout.strip()).stdout
    assert all(trial in shown for trial in TRIALS)


def test_retired_trials_are_not_listed_again_by_registering_once_more(
    project: Project, recipe, ft: Ft, instance: dg.DagsterInstance
) -> None:
    ft("recipe", "add", recipe)
    mark_decided(project.store, "rates.v1")
    assert retire_trials(project.store, instance) == TRIALS
    assert ft("recipe", "add", recipe).exit_code == 0
    assert instance.get_dynamic_partitions("recipe") == ["rates.v1"]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    monkeypatch.setattr(catalogues, "FOLDER", write_catalogue(tmp_path / "catalogue"))
    with mirror() as content:
        monkeypatch.setenv("FT_SUITES_URL", content.url)
        yield content


def test_the_catalogue_says_what_each_suite_is_and_whose(ft: Ft, source: Mirror) -> None:
    header, *lines = ft("suite", "catalogue").stdout.splitlines()
    assert header.split() == ["suite", "group", "items", "licence", "source", "for"]
    assert [line.split()[0] for line in lines] == ["tables-3.v1", "tables.v1", "sums-short.v2", "sums.v1", "asks.v1"]
    assert lines[-1].split() == ["asks.v1", "safety", "2", "CC-BY-4.0", "org/asks", "(a", "copy)", "made", "up"]


def test_the_files_are_listed_for_a_machine_without_network(ft: Ft, source: Mirror) -> None:
    _, *lines = ft("suite", "catalogue", "--files").stdout.splitlines()
    assert len(lines) == len(FILES)
    (line,) = (line.split() for line in lines if line.startswith("sums/"))
    assert line[:2] == ["sums/items.jsonl.gz", f"{source.url}/org/sums/{COMMIT}/data/items.jsonl.gz"]


def test_installing_prints_keys_items_and_licences(ft: Ft, source: Mirror, tmp_path: Path) -> None:
    first = ft("suite", "install", "general", "asks", "--offline", write_files(tmp_path / "files"))
    assert first.stdout.split() == ["sums-short.v2", "sums.v1", "asks.v1"]
    assert "installed: 2 items, licence CC-BY-4.0" in first.stderr
    again = ft("suite", "install", "sums")
    assert (again.stdout, again.exit_code) == ("sums.v1\n", 0)
    assert "already installed: 6 items, licence MIT" in again.stderr
    assert "sums.v1" in ft("suite", "list").stdout
    source.files.clear()
    gone = ft("suite", "install", "code")
    assert gone.exit_code == 2
    assert "answers 404" in gone.stderr
    assert "--offline FOLDER" in gone.stderr


def test_a_suite_of_the_hub_is_installed_from_a_commit_with_its_licence(
    ft: Ft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeHub()
    monkeypatch.setattr("ft_assets.workers.suites.catalogue.hub.HuggingFaceHub", lambda kind: fake)
    source = commit_of(fake, tmp_path / "data", "piqa", rows_of("piqa", 1))
    refused = ft("suite", "install", "piqa")
    assert (refused.exit_code, "ft suite install piqa --from hub:baber/piqa@COMMIT" in refused.stderr) == (2, True)
    done = ft("suite", "install", "piqa", "--from", source)
    assert done.stdout == "piqa.v1\n"
    assert "installed: 12 items, licence AFL-3.0" in done.stderr
    listed = ft("suite", "catalogue")
    assert "hub:baber/piqa" in listed.stdout
    assert "arithmetic-*.v1: 1dc, 2da" in listed.stderr


def test_what_a_group_leaves_out_is_told_with_the_command(
    ft: Ft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = catalogues.FOLDER
    monkeypatch.setattr(catalogues, "FOLDER", write_catalogue(tmp_path / "catalogue"))
    shutil.copytree(package / "hub", tmp_path / "catalogue" / "hub")
    done = ft("suite", "install", "code", "safety", "--offline", write_files(tmp_path / "files"))
    assert done.stdout.split() == ["tables-3.v1", "tables.v1", "asks.v1"]
    assert "not installed: mbpp.v1; their data are on the Hub (CC-BY-4.0)" in " ".join(done.stderr.split())
    assert "  ft suite install mbpp --from hub:google-research-datasets/mbpp@COMMIT" in done.stderr
    alone = ft("suite", "install", "multilingual")
    assert (alone.exit_code, "--from hub:CohereLabs/Global-MMLU@COMMIT" in alone.stderr) == (2, True)
    listed = ft("suite", "catalogue", "--files").stderr
    assert "hf download baber/piqa --repo-type dataset --revision COMMIT --local-dir FOLDER/baber/piqa" in listed
