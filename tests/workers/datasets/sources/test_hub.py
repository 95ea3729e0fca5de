"""A branch of a Hub dataset, which moves."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from ft_assets.workers.datasets.sources.hub import HubRevision
from ft_resources.errors import BadData
from tests.fake_hub import FakeHub


def test_a_moved_branch_is_noticed_and_the_rows_are_those_of_its_commit(tmp_path: Path) -> None:
    hub, asked = FakeHub(), []
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "rows.jsonl").write_text("{}")
    first = hub.commit("org/tickets", tmp_path / "repo")

    def rows(repo: str, revision: str, split: str) -> tuple[str, list[pa.Table]]:
        asked.append((repo, revision, split))
        return revision, [pa.table({"text": [f"row of {revision}"]})]

    source = HubRevision("hub:org/tickets@main#train", hub=hub, open_split=rows)
    assert source.look() == f"commit {first}"
    (tmp_path / "repo" / "rows.jsonl").write_text('{"a": 1}')
    second = hub.commit("org/tickets", tmp_path / "repo")
    fetched = source.fetch(tmp_path, most_rows=None)
    assert (fetched.seen, asked) == (f"commit {second}", [("org/tickets", second, "train")])
    assert second in fetched.files[0].read_text()


@pytest.mark.parametrize("named", ["", "zip://*.jsonl::"])
def test_a_repository_that_names_files_of_the_platform_gets_none_and_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    import datasets
    import huggingface_hub

    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "rows.jsonl").write_text('{"prompt": "of another tenant"}')
    (tmp_path / "repo").mkdir()
    readme = f"---\nconfigs:\n- config_name: default\n  data_files: {tmp_path}/store/*.jsonl\n---\n"
    (tmp_path / "repo" / "README.md").write_text(readme)
    load, tokens = datasets.load_dataset_builder, []

    def of_folder(repo: str, *, revision: str, token: object) -> Any:
        tokens.append(token)
        builder = load(str(tmp_path / "repo"), cache_dir=str(tmp_path / "cache"))
        if named:
            builder.config.data_files = {"train": [f"{named}hf://datasets/org/tickets@{revision}/a.zip"]}
        return builder

    def info(api: huggingface_hub.HfApi, *_: object, **__: object) -> SimpleNamespace:
        tokens.append(api.token)
        return SimpleNamespace(sha="a" * 40, siblings=[])

    monkeypatch.setattr(datasets, "load_dataset_builder", of_folder)
    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", info)
    with pytest.raises(BadData, match="files outside its repository"):
        HubRevision("hub:org/tickets@main#train").fetch(tmp_path, most_rows=None)
    assert tokens == [False, False, False]
