"""Adding versions: what is refused and in which words, what is the same version, and races."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ft_assets.control.identity import raw_dataset
from ft_assets.control.registry.versions import DatasetVersion, add_dataset_version, latest_version, list_versions
from ft_assets.settings.dataset.policy import ContaminationSettings, DatasetPolicy, SplitSettings
from ft_resources.artifacts import Artifacts
from ft_resources.errors import BadData, StoreUnavailable
from ft_resources.store import Store
from tests.workers.datasets.conftest import Add, Row, WriteRows, pair, prose, report_of, run_curation

GOOD: list[Row | bytes] = [pair(number) for number in range(150)]
DROP = DatasetPolicy(on_bad_row="drop")


def test_an_upload_is_kept_byte_for_byte_with_its_policy(add: Add, write: WriteRows, artifacts: Artifacts) -> None:
    file = write([*GOOD, b""])
    version = add(file)
    artifact = raw_dataset(artifacts, "acme.facts.v1")
    assert (str(version.key), version.created, version.address) == ("acme.facts.v1", True, artifact.address)
    assert artifact.read("upload/data.jsonl") == file.read_bytes()
    stored = DatasetPolicy.model_validate_json(artifact.read("policy.json"))
    # There are no suites yet; which ones `all` are is settled when a version is added.
    assert stored == DatasetPolicy(contamination=ContaminationSettings(suites=()))
    assert artifact.facts == {"files": 1, "bytes": file.stat().st_size, "rows": 150}
    assert artifact.verify() == []
    assert artifacts.store.get_json("names/dataset/acme.facts.v1.json")["digest"] == artifact.digest


def test_the_same_bytes_and_policy_are_the_same_version(add: Add, write: WriteRows, store: Store) -> None:
    first, other = write(GOOD), write(GOOD[1:], "other.jsonl")
    again = write(GOOD, "renamed.jsonl")
    assert [str(add(file).key) for file in (first, other, first, again, other)] == [
        f"acme.facts.v{number}" for number in (1, 2, 1, 1, 2)
    ]
    assert [add(first).created, add(again).created] == [False, False]
    assert len(list_versions(store, "acme", "facts")) == 2


def test_another_policy_is_another_version(add: Add, write: WriteRows) -> None:
    file = write(GOOD)
    policies = [DatasetPolicy(), DatasetPolicy(split=SplitSettings(seed=1)), DROP, DatasetPolicy()]
    assert [add(file, policy).key.version for policy in policies] == [1, 2, 3, 1]


def test_versions_are_listed_in_order_and_by_name(add: Add, write: WriteRows, store: Store) -> None:
    for number in range(11):
        add(write(GOOD[number:]))
    add(write(GOOD), name="facts-2")
    assert [key.version for key in list_versions(store, "acme", "facts")] == list(range(1, 12))
    assert str(latest_version(store, "acme", "facts")) == "acme.facts.v11"
    assert latest_version(store, "acme", "unknown") is None


def test_a_text_of_few_sections_is_taken_whatever_its_sections_draw(add: Add, tmp_path: Path) -> None:
    for number in range(6):
        book = tmp_path / f"book {number}.txt"
        book.write_text("\n\n".join(prose((number, part), 600) for part in range(110)))
        assert add(book).created


def test_different_rows_count_also_behind_very_many_equal_ones(add: Add, write: WriteRows) -> None:
    assert add(write([*[pair(0)] * 11_000, *GOOD])).created


def test_bad_rows_may_be_dropped_up_to_the_share_allowed(add: Add, write: WriteRows) -> None:
    assert add(write([*GOOD, *[b"x"] * 7]), DROP).created
    with pytest.raises(BadData) as error:
        add(write([*GOOD, *[b"x"] * 8]), DROP)
    assert error.value.what == (
        "8 of 158 rows are bad, more than max_dropped_share (0.05) allows; the first is row 151: the row is not valid "
        "JSON at character 1 (Expecting value)"
    )
    assert add(write([*GOOD, *[b"x"] * 8]), DROP.model_copy(update={"max_dropped_share": 0.2})).created


@pytest.mark.parametrize("name", ["Größe (2).jsonl", "+a.jsonl", "a" * 113 + "é.jsonl"])
def test_any_other_name_is_stored_safely_and_shown_as_given(
    add: Add, write: WriteRows, artifacts: Artifacts, name: str, tmp_path: Path
) -> None:
    with pytest.raises(BadData) as error:
        add(write([*GOOD, b"x"], name))
    assert error.value.where == f"{name}, row 151"
    version = add([write(GOOD, name), write([pair(number) for number in range(150, 300)], "plain.jsonl")])
    artifact = raw_dataset(artifacts, str(version.key))
    (stored,) = artifact.facts["names"]
    assert artifact.facts["names"] == {stored: name}
    assert re.fullmatch(r"upload/[A-Za-z0-9_][A-Za-z0-9._+=@-]{0,119}", stored)
    assert {*artifact.manifest.files} == {"policy.json", stored, "upload/plain.jsonl"}
    uploads = report_of(run_curation(artifacts, str(version.key), tmp_path)).uploads
    assert {upload.name for upload in uploads} == {name, "plain.jsonl"}


def test_names_that_differ_are_stored_apart_and_those_that_only_look_so_are_one(add: Add, write: WriteRows) -> None:
    assert add([write(GOOD, "a b.jsonl"), write([pair(999)], "a_b.jsonl"), write([pair(998)], "a?b.jsonl")]).created
    with pytest.raises(BadData, match="two of the files have this name"):
        add([write(GOOD, "\u00e9.jsonl"), write([pair(999)], "e\u0301.jsonl")])


def test_concurrent_adds_of_different_bytes_get_a_number_each(add: Add, write: WriteRows, store: Store) -> None:
    files = [write(GOOD[number:], f"part{number}.jsonl") for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        added = list(pool.map(add, files))
    assert sorted(version.key.version for version in added) == list(range(1, 9))
    for file, version in zip(files, added, strict=True):
        assert raw_dataset(Artifacts(store), str(version.key)).read(f"upload/{file.name}") == file.read_bytes()


def test_the_same_bytes_read_in_another_format_are_another_version(add: Add, write: WriteRows, tmp_path: Path) -> None:
    lines = write([pair(number, note="word " * 40) for number in range(2000)])
    text = tmp_path / "data.txt"
    text.write_bytes(lines.read_bytes())
    # Of which pictures are left out.
    markdown, also = tmp_path / "data.md", tmp_path / "more.markdown"
    for path in (markdown, also):
        path.write_bytes(lines.read_bytes())
    keys = [add(path).key.version for path in (text, lines, text, markdown, also, text)]
    assert keys == [1, 2, 1, 3, 3, 1]


def test_concurrent_adds_of_the_same_bytes_are_one_version(add: Add, write: WriteRows, store: Store) -> None:
    files = [write(GOOD, f"copy{number % 2}.jsonl") for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        added = list(pool.map(add, files))
    assert {str(version.key) for version in added} == {"acme.facts.v1"}
    assert [version.created for version in added].count(True) == 1
    assert [str(key) for key in list_versions(store, "acme", "facts")] == ["acme.facts.v1"]


def test_a_lost_race_against_the_same_bytes_gives_the_winners_version(
    add: Add, write: WriteRows, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other writer takes the number between our look at it and our try."""
    ours, rival = write(GOOD, "ours.jsonl"), write(GOOD, "rival.jsonl")
    create = Store.create_json

    def beaten(self: Store, path: str, value: object) -> bool:
        if path.startswith("names/dataset/"):
            monkeypatch.setattr(Store, "create_json", create)
            assert add(rival).created
        return create(self, path, value)

    monkeypatch.setattr(Store, "create_json", beaten)
    lost = add(ours)
    assert (str(lost.key), lost.created) == ("acme.facts.v1", False)
    assert lost.address == raw_dataset(Artifacts(store), "acme.facts.v1").address


def test_an_interrupted_upload_leaves_no_version_and_can_be_repeated(
    add: Add, write: WriteRows, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_self: Store, _source: Path, path: str) -> None:
        raise StoreUnavailable("the store refused to write (connection reset)", where=path, remedy="Try again.")

    file = write(GOOD)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "upload", interrupted)
        with pytest.raises(StoreUnavailable):
            add(file)
    assert list(store.entries("names")) == []
    assert not [entry for entry in store.entries("acme") if entry.path.endswith("manifest.json")]
    assert add(file).created


def test_several_files_and_files_set_aside_are_kept_by_role(add: Add, write: WriteRows, store: Store) -> None:
    files = [write(GOOD[75:], "b.jsonl"), write(GOOD[:75], "a.jsonl")]
    side = write([pair(500)], "side.jsonl")
    kept = write([pair(600)], "kept.jsonl")

    def add_all(order: list[Path], **sides: list[Path]) -> DatasetVersion:
        return add_dataset_version(
            store, order, tenant="acme", name="facts", policy=DatasetPolicy(), actor="tester", **sides
        )

    version = add_all(files, validation=[side], holdout=[kept])
    artifact = raw_dataset(Artifacts(store), str(version.key))
    assert sorted(artifact.manifest.files) == [
        "holdout/kept.jsonl",
        "policy.json",
        "upload/a.jsonl",
        "upload/b.jsonl",
        "validation/side.jsonl",
    ]
    assert (artifact.facts["files"], artifact.facts["rows"]) == (4, 152)
    assert not add_all(files[::-1], validation=[side], holdout=[kept]).created
    assert add_all(files, validation=[kept], holdout=[side]).created
    assert add_all(files).created
