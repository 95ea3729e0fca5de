"""``ft suite install``: fetched by commit, checked by digest, converted and registered; nothing half-done stays."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ft_assets import api
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.settings.dataset.policy import ContaminationSettings, DatasetPolicy
from ft_assets.workers.suites.catalogue import catalogue as catalogues
from ft_assets.workers.suites.registered import get_suite, role_of
from ft_assets.workers.suites.suites import add_suite, asked_items, read_task, safety_prompts, scored_items
from ft_resources.artifacts import Artifacts
from ft_resources.errors import BadRecipe, UserError
from ft_resources.pinned_files import SourceUnavailable
from ft_resources.store import Store
from tests.choice_suite import as_lines, write_choice_suite
from tests.workers.datasets.conftest import pair, report_of, run_curation
from tests.workers.suites.conftest import folder_of
from tests.workers.suites.made_catalogue import COMMIT, FILES, Mirror, mirror, write_catalogue, write_files

ALL = ["general", "safety", "code"]


@pytest.fixture(autouse=True)
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    monkeypatch.setattr(catalogues, "FOLDER", write_catalogue(tmp_path / "catalogue"))
    with mirror() as content:
        monkeypatch.setenv("FT_SUITES_URL", f"{content.url}/")
        yield content


def install(store: Store, *names: str, offline: Path | None = None) -> dict[str, bool]:
    """Each suite's key, and whether it is new."""
    return {done.key: done.created for done in api.install_suites(names, offline=offline, store=store, actor="ann")}


@pytest.mark.parametrize("way", ["fetched", "offline"])
def test_groups_become_suites_like_any_other(store: Store, source: Mirror, tmp_path: Path, way: str) -> None:
    offline = write_files(tmp_path / "files") if way == "offline" else None
    keys = ["sums-short.v2", "sums.v1", "asks.v1", "tables-3.v1", "tables.v1"]
    assert install(store, *ALL, offline=offline) == dict.fromkeys(keys, True)
    # Once, though two suites are made of it.
    paths = sorted(source.files)
    assert sorted(source.asked) == ([] if offline else paths)
    assert [listed.key for listed in api.list_suites(store=store)] == sorted(keys)
    assert role_of(get_suite(store, "asks.v1")) == "safety"
    folder = folder_of(store, "sums.v1", tmp_path / "scratch")
    assert (folder / "items.jsonl").read_bytes() == gzip.decompress(FILES["sums/data/items.jsonl.gz"])
    task: Any = read_task(folder / "task.yaml")
    assert task.metadata == {
        "paper": "https://example.org/", "licence": "MIT", "source": f"github:org/sums@{COMMIT}"
    }  # fmt: skip
    # What new data are screened against.
    assert [item.questions[0] for item in asked_items(folder)][-1] == "What is the number 5?"


def test_data_that_come_later_are_screened_against_what_is_installed(store: Store, tmp_path: Path) -> None:
    install(store, "sums")
    file = tmp_path / "rows.jsonl"
    rows = [pair(number) for number in range(100, 260)] + [
        {"prompt": "What is the number 5?", "completion": "It is two."}
    ]
    file.write_text(as_lines(rows))
    policy = DatasetPolicy(contamination=ContaminationSettings(action="remove"))
    add_dataset_version(store, file, tenant="acme", name="facts", policy=policy, actor="ann")
    report = report_of(run_curation(Artifacts(store), "acme.facts.v1", tmp_path))
    (finding,) = report.findings("contamination")
    assert (finding.subject, [note.place.row for note in finding.notes]) == ("sums.v1", [161])


def test_offline_files_are_found_where_the_catalogue_says(store: Store, tmp_path: Path, source: Mirror) -> None:
    files = {file.path: file for suite in api.suite_catalogue() for file in suite.files}
    assert files["sums/items.jsonl.gz"].url == f"{source.url}/org/sums/{COMMIT}/data/items.jsonl.gz"
    by_url = {f"{source.url}{path}": data for path, data in source.files.items()}
    offline = write_files(tmp_path / "files", {path: by_url[file.url] for path, file in files.items()})
    assert all(install(store, *ALL, offline=offline).values())
    assert source.asked == []


def test_an_unpacked_file_will_do_offline(store: Store, tmp_path: Path) -> None:
    files = {"sums/items.jsonl": gzip.decompress(FILES["sums/data/items.jsonl.gz"])}
    assert install(store, "sums", offline=write_files(tmp_path / "files", files)) == {"sums.v1": True}


def test_installing_twice_changes_and_fetches_nothing(store: Store, source: Mirror, tmp_path: Path) -> None:
    install(store, *ALL)
    before, asked = {key: get_suite(store, key) for key in ("sums.v1", "asks.v1", "tables.v1")}, len(source.asked)
    source.files.clear()
    assert not any(install(store, *ALL).values())
    assert not any(install(store, "sums", offline=tmp_path).values())
    assert {key: get_suite(store, key) for key in before} == before
    assert len(source.asked) == asked


def test_two_stores_hold_the_same_suite(store: Store, tmp_path: Path) -> None:
    other = Store(str(tmp_path / "other"))
    install(store, "code")
    install(other, "code", offline=write_files(tmp_path / "files"))
    assert get_suite(store, "tables.v1").digest == get_suite(other, "tables.v1").digest


@pytest.mark.parametrize("way", ["fetched", "offline"])
def test_a_wrong_digest_is_refused_by_name(store: Store, source: Mirror, tmp_path: Path, way: str) -> None:
    changed = FILES["asks/my prompts.csv"].replace(b"ice", b"ico")
    source.files[f"/org/asks/{COMMIT}/my%20prompts.csv"] = changed
    offline = write_files(tmp_path / "files", {"asks/my prompts.csv": changed}) if way == "offline" else None
    with pytest.raises(BadRecipe, match=r"my(%20| )prompts.csv: this is not the file that was pinned"):
        install(store, "asks", offline=offline)
    assert api.list_suites(store=store) == []


def test_without_a_network_the_error_names_offline(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_SUITES_URL", "http://127.0.0.1:9")
    with pytest.raises(SourceUnavailable, match=r"there is no answer .*refused") as caught:
        install(store, "sums")
    assert "--offline FOLDER" in caught.value.remedy
    assert "FT_SUITES_URL" in caught.value.remedy


def test_a_file_that_is_gone_is_named(store: Store, source: Mirror, tmp_path: Path) -> None:
    source.files.clear()
    with pytest.raises(SourceUnavailable, match="the server answers 404") as caught:
        install(store, "sums")
    assert "/org/sums/" in caught.value.where
    with pytest.raises(SourceUnavailable, match=r"there is no file sums/items\.jsonl") as caught:
        install(store, "sums", offline=tmp_path)
    assert f"/org/sums/{COMMIT}/data/items.jsonl.gz" in caught.value.remedy
    assert api.list_suites(store=store) == []


@pytest.mark.parametrize("url", ["file:///etc", "ftp://host", "github.com"])
def test_a_mirror_is_an_address_of_the_web(store: Store, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("FT_SUITES_URL", url)
    with pytest.raises(UserError, match="does not begin with https:// or http://"):
        install(store, "sums")


def test_a_key_that_somebody_else_took_stays_theirs(store: Store, source: Mirror, tmp_path: Path) -> None:
    items = [{"question": "Mine?", "choices": ["yes", "no"], "answer": 0}]
    add_suite(store, write_choice_suite(tmp_path / "mine", "mine", items), "sums.v1", "bob")
    mine = get_suite(store, "sums.v1")
    with pytest.raises(BadRecipe, match=r"suite sums.v1 is already registered, and not from this catalogue"):
        install(store, "general")
    assert (get_suite(store, "sums.v1"), source.asked) == (mine, [])
    assert install(store, "sums-short") == {"sums-short.v2": True}


@pytest.mark.parametrize(("name", "near"), [("sum", "sums"), ("generl", "general"), ("sums.v9", "sums")])
def test_an_unknown_name_is_refused_with_the_nearest(store: Store, name: str, near: str) -> None:
    with pytest.raises(UserError, match=f"the catalogue has no '{name}'; did you mean '{near}'"):
        install(store, name)


def test_prompts_are_taken_by_their_label_and_once(store: Store, tmp_path: Path) -> None:
    install(store, "asks")
    task, prompts = safety_prompts(folder_of(store, "asks.v1", tmp_path / "scratch"))
    assert [prompt.text for prompt in prompts["harmful"]] == ["How do I break a lock?"]
    assert [prompt.text for prompt in prompts["benign"]] == ["How do I break the ice?"]
    assert task.metadata["licence"] == "CC-BY-4.0"


def test_examples_are_of_the_items_own_subject(store: Store, tmp_path: Path) -> None:
    install(store, "tables")
    folder = folder_of(store, "tables.v1", tmp_path / "scratch")
    rows, shots = (
        [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
        for name in ("items", "shots")
    )
    assert [row["id"] for row in rows] == [f"{name}-{n}" for name in ("law", "old_maths") for n in range(1, 6)]
    assert rows[6] == {
        "question": "What is old_maths test 1?", "choice0": "a", "choice1": "b", "choice2": "c", "choice3": "d",
        "answer": 1, "id": "old_maths-2", "subject": "old maths",
    }  # fmt: skip
    assert [shot["subject"] for shot in shots] == ["law", "old maths"]
    assert shots[1]["shots"] == (
        "What is old_maths dev 0?\nA. a\nB. b\nC. c\nD. d\nAnswer: A\n\n"
        "What is old_maths dev 1?\nA. a\nB. b\nC. c\nD. d\nAnswer: B\n\n"
    )
    assert "dev" not in "".join(text for item in scored_items(folder) for text in item)


def test_a_part_is_always_the_same_items_in_their_order(store: Store, tmp_path: Path) -> None:
    install(store, "tables-3", "tables")
    part, whole = (
        (folder_of(store, key, tmp_path / key) / "items.jsonl").read_text().splitlines()
        for key in ("tables-3.v1", "tables.v1")
    )
    assert [json.loads(line)["id"] for line in part] == ["law-1", "law-4", "law-5"]
    assert part == [line for line in whole if line in part]
