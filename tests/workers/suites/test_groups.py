"""Groups include suites whose data are on the Hub: those that need no commit are installed, the rest is reported."""

import json
import os
import shutil
from pathlib import Path

import pytest
import yaml

from ft_assets import api
from ft_assets.workers.suites.catalogue import catalogue as catalogues
from ft_assets.workers.suites.catalogue.catalogue import FOLDER, GROUPS, read_catalogue
from ft_assets.workers.suites.catalogue.hub import hub_entries, hub_suites
from ft_assets.workers.suites.registered import get_suite
from ft_assets.workers.suites.suites import add_suite, asked_items, read_task, scored_items
from ft_resources.canonical import digest
from ft_resources.errors import BadBase, BadRecipe, UserError
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from tests.choice_suite import as_lines, choice_task
from tests.fake_hub import FakeHub, hub_server
from tests.workers.suites.conftest import folder_of
from tests.workers.suites.hub_rows import commit_of, rows_of, write_rows
from tests.workers.suites.made_catalogue import write_catalogue, write_files

LANGUAGES = [key for key in hub_suites() if key.startswith("global-mmlu-")]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The made catalogue with the package's own suites of the Hub; the folder of its files."""
    package = catalogues.FOLDER
    folder = write_catalogue(tmp_path / "catalogue")
    shutil.copytree(package / "hub", folder / "hub")
    monkeypatch.setattr(catalogues, "FOLDER", folder)
    return write_files(tmp_path / "files")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    fake = FakeHub()
    monkeypatch.setattr("ft_assets.workers.suites.catalogue.hub.HuggingFaceHub", lambda kind: fake)
    return fake


def install(store: Store, *names: str, source: str = "", offline: Path | None = None) -> list[str]:
    return [done.key for done in api.install_suites(names, source=source, offline=offline, store=store, actor="ann")]


def left(store: Store, *names: str, offline: Path | None = None) -> dict[tuple[str, ...], str]:
    return {each.suites: each.command for each in api.suites_left(names, offline=offline, store=store)}


def test_what_a_group_leaves_out_is_told_with_lines_to_paste(
    store: Store, files: Path, fake: FakeHub, tmp_path: Path
) -> None:
    assert install(store, "general", offline=files) == ["sums-short.v2", "sums.v1"]
    lines = left(store, "general")
    assert lines["arc-challenge.v1", "arc-easy.v1"] == (
        "ft suite install arc-challenge arc-easy --from hub:allenai/ai2_arc@COMMIT"
    )
    assert "ft suite install arithmetic --from hub:EleutherAI/arithmetic@COMMIT" in lines.values()
    assert "ft suite install mmlu-pro-1000 mmlu-pro --from hub:TIGER-Lab/MMLU-Pro@COMMIT" in lines.values()
    assert {key for keys in lines for key in keys} == {
        key for key, suite in hub_suites().items() if suite.entry.group == "general"
    }
    # What was installed from a commit belongs to the group from then on.
    source = commit_of(fake, tmp_path / "data", "piqa", rows_of("piqa", 1))
    assert install(store, "piqa", source=source) == install(store, "piqa") == ["piqa.v1"]
    assert install(store, "general", offline=files) == ["sums-short.v2", "sums.v1", "piqa.v1"]
    assert left(store, "general") == {keys: line for keys, line in lines.items() if keys != ("piqa.v1",)}
    assert left(store, "sums") == {}


@pytest.mark.statistics
def test_a_group_that_is_all_on_the_hub_installs_from_its_data_set(store: Store, fake: FakeHub, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the data of multilingual are on the Hub") as caught:
        install(store, "multilingual")
    assert caught.value.remedy.endswith("ft suite install global-mmlu --from hub:CohereLabs/Global-MMLU@COMMIT")
    for key in LANGUAGES:
        language = key.removeprefix("global-mmlu-").removesuffix(".v1")
        write_rows(tmp_path / "data" / language / "test-0.parquet", rows_of(key.removesuffix(".v1"), 1, 2))
    source = f"hub:CohereLabs/Global-MMLU@{fake.commit('CohereLabs/Global-MMLU', tmp_path / 'data')}"
    assert install(store, "multilingual", source=source) == LANGUAGES
    assert len(LANGUAGES) == 42
    assert left(store, "multilingual") == {}
    assert install(store, "multilingual") == install(store, "global-mmlu") == LANGUAGES


@pytest.mark.parametrize(
    ("names", "source", "expected"),
    [
        (["general"], "somebody/piqa", "no suite of these groups is of the data set somebody/piqa"),
        (["gsm8k"], "openai/gsm8k", r"the data of gsm8k.v1 are not on the Hub"),
        (["piqa", "mmlu"], "baber/piqa", r"the data of mmlu.v1 are not on the Hub"),
    ],
)
def test_a_data_set_that_is_for_none_of_the_names_is_refused(
    store: Store, names: list[str], source: str, expected: str
) -> None:
    with pytest.raises(UserError, match=expected):
        install(store, *names, source=f"hub:{source}@{'0' * 40}")
    assert api.list_suites(store=store) == []


def laid_by_hf(fake: FakeHub, source: str, folder: Path) -> Path:
    """``folder`` with the data set ``source`` as ``hf download --local-dir`` lays it."""
    from huggingface_hub import HfApi

    repo, _, commit = source.removeprefix("hub:").partition("@")
    with hub_server(fake) as endpoint:
        for name in fake.commits[repo, commit]:
            HfApi(endpoint=endpoint, token=False).hf_hub_download(
                repo, name, repo_type="dataset", revision=commit, local_dir=folder / repo
            )
    return folder


def test_a_folder_has_data_sets_too_and_their_commits(store: Store, files: Path, tmp_path: Path) -> None:
    fake = FakeHub()
    easy = commit_of(fake, tmp_path / "data", "arc-easy", rows_of("arc-easy", 1))
    laid_by_hf(fake, easy, files)
    strong = commit_of(fake, tmp_path / "strong", "piqa", rows_of("piqa", 1))
    laid_by_hf(fake, strong, files)
    # The other half of that data set is not there.
    keys = ["arc-easy.v1", "piqa.v1"]
    assert install(store, "general", offline=files) == ["sums-short.v2", "sums.v1", *keys]
    assert [store.get_json(f"names/suite/{key}.json")["source"] for key in keys] == [easy, strong]
    assert ("arc-challenge.v1",) in left(store, "general", offline=files)
    with pytest.raises(BadRecipe, match=r"no single file ARC-Challenge/test-\*\.parquet"):
        install(store, "arc-challenge", offline=files)
    # It is the same suite as one that was fetched.
    other = Store(str(tmp_path / "other"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ft_assets.workers.suites.catalogue.hub.HuggingFaceHub", lambda kind: fake)
        install(other, "piqa", source=strong)
    assert api.list_suites(store=other)[0] in api.list_suites(store=store)


def test_a_file_that_was_changed_since_or_is_of_another_commit_is_refused(
    store: Store, files: Path, tmp_path: Path
) -> None:
    fake = FakeHub()
    source = commit_of(fake, tmp_path / "data", "piqa", rows_of("piqa", 1))
    folder = laid_by_hf(fake, source, tmp_path / "laid")
    with pytest.raises(BadBase, match=f"is of commit {source[-40:]}, not of {'0' * 40}"):
        install(store, "piqa", offline=folder, source=f"hub:baber/piqa@{'0' * 40}")
    write_rows(folder / "baber/piqa/data/validation-00000-of-00001.parquet", rows_of("piqa", 2))
    with pytest.raises(BadBase, match="does not match the git blob id that the hub lists"):
        install(store, "piqa", offline=folder)
    assert api.list_suites(store=store) == []


def test_files_laid_by_hand_are_taken_at_the_commit_that_is_named(store: Store, files: Path) -> None:
    write_rows(files / "baber/piqa/data/validation-0.parquet", rows_of("piqa", 1))
    with pytest.raises(BadRecipe, match="files whose commit is unknown of the data set baber/piqa") as caught:
        install(store, "piqa", offline=files)
    assert "--from hub:baber/piqa@COMMIT" in caught.value.remedy
    source = f"hub:baber/piqa@{'a' * 40}"
    assert install(store, "piqa", offline=files, source=source) == ["piqa.v1"]
    assert store.get_json("names/suite/piqa.v1.json")["source"] == source
    with pytest.raises(BadBase, match="the folder has no files of the data set Rowan/hellaswag"):
        install(store, "hellaswag", offline=files, source=f"hub:Rowan/hellaswag@{'a' * 40}")


def test_safety_prompts_of_a_folder_take_xstests_file_from_it_too(store: Store, tmp_path: Path) -> None:
    fake = FakeHub()
    source = commit_of(fake, tmp_path / "data", "strongreject", rows_of("strongreject", 1))
    folder = laid_by_hf(fake, source, tmp_path / "laid")
    with pytest.raises(UserError, match=r"there is no file xstest/xstest_prompts\.csv"):
        install(store, "strongreject", offline=folder)


ITEMS = [
    {"subject": "cats", "question": "Do cats purr?", "choices": ["yes", "no"], "answer": 0},
    {"subject": "dogs", "question": "Do dogs purr?", "choices": ["yes", "no"], "answer": 1},
]
SHOTS = [{"subject": "dogs", "shots": "Dogs bark."}, {"subject": "cats", "shots": "Cats meow."}]
SHARED = {"shared": {"file": "shots.jsonl", "by": "subject"}, "doc_to_text": "{{shots}} {{question}}"}


def write(folder: Path, items: object = ITEMS, shots: object = SHOTS, **task: object) -> Path:
    folder.mkdir()
    (folder / "items.jsonl").write_text(as_lines(items))
    (folder / "shots.jsonl").write_text(as_lines(shots))
    (folder / "task.yaml").write_text(yaml.safe_dump(choice_task("pets", **{**SHARED, **task})))
    return folder


def test_items_are_checked_with_their_shared_columns_and_ask_without_them(store: Store, tmp_path: Path) -> None:
    done = add_suite(store, write(tmp_path / "pets"), "pets.v1", "ann")
    folder = folder_of(store, done.ref, tmp_path / "scratch")
    assert [item.questions for item in asked_items(folder)] == [("Do cats purr?",), ("Do dogs purr?",)]
    assert "Cats meow." not in [text for item in scored_items(folder) for text in item]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"shots": SHOTS[:1]}, "items.jsonl, line 1: shots.jsonl has no row with this item's subject"),
        ({"shots": [*SHOTS, SHOTS[0]]}, "shots.jsonl, line 3: an earlier row has this subject"),
        ({"shots": [{"shots": "Cats meow."}]}, "shots.jsonl, line 1: there is no column 'subject'"),
        ({"items": [{**ITEMS[0], "subject": None}]}, "shots.jsonl has no row with this item's subject"),
        ({"shared": {"file": "other.jsonl", "by": "subject"}}, "shared.file: 'other.jsonl' is not a JSON lines file"),
        ({"shared": {"file": "shots.jsonl", "by": "topic"}}, "there is no column 'topic'"),
        ({"dataset_path": "csv"}, "shared: belongs to dataset_path json"),
        ({"bias": True}, "bias: belongs to multiple_choice with reported_by"),
        ({"bias": True, "reported_by": "subject"}, "line 1: bias: this item has no lists sided and biased"),
        ({"reported_by": "topic"}, "items.jsonl, line 1: reported_by: 'topic' is missing from an item"),
    ],
)
def test_a_file_that_does_not_fit_the_items_is_refused(
    store: Store, tmp_path: Path, changes: dict[str, object], expected: str
) -> None:
    with pytest.raises(BadRecipe) as caught:
        add_suite(store, write(tmp_path / "pets", **changes), "pets.v1", "ann")
    assert expected in str(caught.value)


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
    "offline-care.v1": "f6af9be80c165d14",
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
