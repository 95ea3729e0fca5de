"""Groups include suites whose data are on the Hub: those that need no commit are installed, the rest is reported."""

import shutil
from pathlib import Path

import pytest

from ft_assets import api
from ft_assets.workers.suites.catalogue import catalogue as catalogues
from ft_assets.workers.suites.catalogue.hub import hub_suites
from ft_resources.errors import BadBase, BadRecipe, UserError
from ft_resources.store import Store
from tests.fake_hub import FakeHub, hub_server
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
