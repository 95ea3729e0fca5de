"""Files of a folder and of a real S3 server, each as a tenant's connection."""

import os
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from ft_assets.settings.connections import FilesConnection
from ft_assets.settings.dataset.source import Source
from ft_assets.workers.datasets.sources import opened
from ft_assets.workers.datasets.sources.files import Files
from ft_assets.workers.datasets.sources.place import SourceUnavailable
from ft_resources.errors import BadData, UserError
from tests.s3_server import ENVIRONMENT, s3_server

STORE = "s3://platform/root"


class Lake:
    """Where a tenant's files are: a folder, or a bucket."""

    def __init__(self, folder: Path, endpoint: str = "") -> None:
        self._folder, self._client = folder, None
        self.connection = FilesConnection(kind="files", url=f"file://{folder}")
        if endpoint:
            self.connection = FilesConnection(
                kind="files",
                url="s3://lake/exports",
                endpoint=endpoint,
                region="us-east-1",
                key="FT_SOURCE_KEY",
                secret="FT_SOURCE_SECRET",
            )
            self._client = boto3.client(
                "s3",
                endpoint_url=endpoint,
                region_name="us-east-1",
                aws_access_key_id="test",
                aws_secret_access_key="test",
            )
            self._client.create_bucket(Bucket="lake")

    def put(self, path: str, text: str) -> None:
        if self._client:
            self._client.put_object(Bucket="lake", Key=f"exports/{path}", Body=text.encode())
            return
        (self._folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self._folder / path).write_text(text)

    def remove(self, path: str) -> None:
        if self._client:
            self._client.delete_object(Bucket="lake", Key=f"exports/{path}")
        else:
            (self._folder / path).unlink()

    def files(self, path: str = "tickets") -> Files:
        return Files(self.connection, path, STORE)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture(params=["folder", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    # Only what the connection names may be used: these are the platform's own.
    for name in (*ENVIRONMENT, "AWS_ENDPOINT_URL"):
        monkeypatch.setenv(name, "the platform's own")
    for proxy in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(proxy, raising=False)
    monkeypatch.setenv("FT_SOURCE_KEY", "test")
    monkeypatch.setenv("FT_SOURCE_SECRET", "test")
    (tmp_path / "lake").mkdir()
    endpoint = request.getfixturevalue("endpoint") if request.param == "s3" else ""
    lake = Lake(tmp_path / "lake", endpoint)
    for path in (
        "tickets/a.jsonl",
        "tickets/deep/b.csv",
        "tickets/notes.bin",
        "tickets/.part.jsonl",
        "tickets2/c.jsonl",
    ):
        lake.put(path, f"rows of {path}")
    yield lake
    if lake._client:
        for each in lake._client.list_objects_v2(Bucket="lake").get("Contents", []):
            lake._client.delete_object(Bucket="lake", Key=each["Key"])


def test_every_file_below_the_path_that_can_be_read_is_fetched(lake: Lake, tmp_path: Path) -> None:
    fetched = lake.files().fetch(tmp_path / "got", most_rows=None)
    found = {str(path.relative_to(tmp_path / "got")): path.read_text() for path in fetched.files}
    assert found == {"a.jsonl": "rows of tickets/a.jsonl", "deep/b.csv": "rows of tickets/deep/b.csv"}
    assert fetched.seen == lake.files().look()


def test_a_path_may_be_one_file(lake: Lake, tmp_path: Path) -> None:
    (path,) = lake.files("tickets/a.jsonl").fetch(tmp_path / "got", most_rows=None).files
    assert (path.name, path.read_text()) == ("a.jsonl", "rows of tickets/a.jsonl")


def test_files_that_are_added_changed_and_removed_are_noticed_and_others_are_not(lake: Lake) -> None:
    seen = [lake.files().look()]
    lake.put("tickets/notes.bin", "changed")
    lake.put("tickets2/c.jsonl", "changed")
    assert lake.files().look() == seen[0]
    lake.put("tickets/a.jsonl", "other rows of the file")
    seen.append(lake.files().look())
    lake.put("tickets/new.jsonl", "more")
    seen.append(lake.files().look())
    lake.remove("tickets/deep/b.csv")
    seen.append(lake.files().look())
    assert len(set(seen)) == 4


def test_a_file_that_changes_while_it_is_read_is_read_again_later(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = Files._list

    def then_changed(files: Files, backend: object) -> object:
        found = listed(files, backend)
        lake.put("tickets/a.jsonl", "other rows than those that were listed")
        return found

    monkeypatch.setattr(Files, "_list", then_changed)
    with pytest.raises(SourceUnavailable, match="changed while it was read"):
        lake.files().fetch(tmp_path / "got", most_rows=None)


@pytest.mark.parametrize("path", ["nothing", "tickets/notes.bin"])
def test_a_path_without_a_file_to_read_is_named(lake: Lake, path: str) -> None:
    with pytest.raises(BadData, match=r"no file that can be read|no such file") as error:
        lake.files(path).look()
    assert path in error.value.where


@pytest.mark.parametrize("path", ["../other", "a/../../b", "/etc", "a//b", "./a"])
def test_no_path_leads_out_of_the_connection(path: str) -> None:
    with pytest.raises(ValueError, match="below the connection"):
        Source.model_validate({"files": {"connection": "lake", "path": path}})


def test_a_link_out_of_the_folder_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "rows.jsonl").write_text("another tenant's")
    lake = Lake(tmp_path / "lake")
    lake.put("tickets/a.jsonl", "ours")
    os.symlink(tmp_path / "secret" / "rows.jsonl", tmp_path / "lake" / "tickets" / "link.jsonl")
    os.symlink(tmp_path / "secret", tmp_path / "lake" / "tickets" / "links")
    fetched = lake.files().fetch(tmp_path / "got", most_rows=None)
    assert [path.read_text() for path in fetched.files] == ["ours"]


@pytest.mark.parametrize("url", ["s3://platform/root", "s3://platform", "s3://platform/root/acme/uploads"])
def test_no_connection_leads_into_the_store_whose_tenants_the_platform_can_read(url: str) -> None:
    with pytest.raises(UserError, match="the platform's own store"):
        Files(FilesConnection(kind="files", url=url), "", STORE)


def test_a_source_names_a_connection_of_its_own_kind_that_the_tenant_has(lake: Lake) -> None:
    source = Source.model_validate({"files": {"connection": "lak"}})
    with pytest.raises(UserError, match=r"there is no connection 'lak'.*lake"):
        opened(source, {"lake": lake.connection}, STORE)
    query = Source.model_validate({"sql": {"connection": "lake", "query": "SELECT 1", "watermark": "at"}})
    with pytest.raises(UserError, match="'lake' is not of kind sql"):
        opened(query, {"lake": lake.connection}, STORE)


def test_a_key_that_is_not_set_is_named(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FT_SOURCE_SECRET")
    if lake.connection.secret:
        with pytest.raises(UserError, match="FT_SOURCE_SECRET is not set"):
            lake.files().look()


def test_a_folder_under_another_name_does_not_lead_into_the_store(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "store")
    for url in (f"{tmp_path}/alias", f"{tmp_path}//store", f"{tmp_path}/alias/acme/..", f"{tmp_path}/x/../store/acme"):
        for store in (f"file://{tmp_path}/store", f"{tmp_path}/store"):
            with pytest.raises(UserError, match="the platform's own store"):
                Files(FilesConnection(kind="files", url=f"file://{url}"), "", store)


def test_names_that_no_folder_can_hold_are_told(lake: Lake, tmp_path: Path) -> None:
    if lake.connection.key is None:
        pytest.skip("only a bucket has them")
    for name in (f"{'long' * 100}/a.jsonl", "tickets/a.jsonl/b.jsonl"):
        lake.put(name, "rows")
        with pytest.raises(SourceUnavailable, match="the files cannot be read"):
            lake.files("").fetch(tmp_path / "got", most_rows=None)
        lake.remove(name)


def test_a_listing_ends_once_there_are_too_many_files(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ft_assets.workers.datasets.sources.files._MOST_FILES", 1)
    with pytest.raises(BadData, match="more than 1 files"):
        lake.files().look()
