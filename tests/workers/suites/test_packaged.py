"""Suites whose files an installed Python package has: nothing is fetched, the same digests count."""

import gzip
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import yaml

from ft_assets import api
from ft_assets.workers.suites.catalogue import catalogue as catalogues
from ft_assets.workers.suites.registered import get_suite
from ft_resources.pinned_files import SourceUnavailable
from ft_resources.store import Store
from tests.workers.suites.made_catalogue import FILES, Mirror, mirror, write_catalogue, write_files


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the installed package ``sums-data``, without files."""

    class Installed:
        def locate_file(self, path: str) -> Path:
            return tmp_path / "site" / path

    def distribution(name: str) -> Installed:
        if name != "sums-data" or not (tmp_path / "site").is_dir():
            raise PackageNotFoundError(name)
        return Installed()

    monkeypatch.setattr(catalogues, "distribution", distribution)
    return tmp_path / "site" / "sums" / "data"


@pytest.fixture(autouse=True)
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    """The made catalogue, where the package has the file of the sums too."""
    folder = write_catalogue(tmp_path / "catalogue")
    monkeypatch.setattr(catalogues, "FOLDER", folder)
    name_source(folder, package="sums-data", package_folder="sums/data")
    with mirror() as content:
        monkeypatch.setenv("FT_SUITES_URL", content.url)
        yield content


def name_source(folder: Path, **settings: str) -> None:
    sources = yaml.safe_load((folder / "sources.yaml").read_text())
    sources["sources"]["sums"] |= settings
    (folder / "sources.yaml").write_text(yaml.safe_dump(sources))


def put(package: Path, data: bytes) -> None:
    package.mkdir(parents=True)
    (package / "items.jsonl.gz").write_bytes(data)


def test_what_a_package_has_is_not_fetched_and_is_the_same_suite(
    store: Store, source: Mirror, package: Path, tmp_path: Path
) -> None:
    fetched = Store(str(tmp_path / "fetched"))
    api.install_suites(["sums"], store=fetched, actor="ann")
    source.asked.clear()
    put(package, FILES["sums/data/items.jsonl.gz"])
    api.install_suites(["sums"], store=store, actor="ann")
    assert source.asked == []
    assert get_suite(store, "sums.v1") == get_suite(fetched, "sums.v1")


def test_a_package_with_other_bytes_is_as_good_as_none(store: Store, source: Mirror, package: Path) -> None:
    put(package, gzip.compress(gzip.decompress(FILES["sums/data/items.jsonl.gz"]) + b"{}\n"))
    api.install_suites(["sums"], store=store, actor="ann")
    assert len(source.asked) == 1


def test_where_only_a_package_has_them_it_is_named_and_its_suites_are_left_out_of_groups(
    store: Store, package: Path, tmp_path: Path
) -> None:
    name_source(tmp_path / "catalogue", repo="", commit="")
    with pytest.raises(SourceUnavailable, match=r"comes with the Python package sums-data") as caught:
        api.install_suites(["sums"], store=store, actor="ann")
    assert "pip install sums-data" in caught.value.remedy
    assert [done.key for done in api.install_suites(["general", "safety"], store=store, actor="ann")] == ["asks.v1"]
    left = {each.suites: each.command for each in api.suites_left(["general", "safety"], store=store)}
    assert left["sums.v1",] == "pip install 'sums-data' && ft suite install sums"
    # Files from elsewhere will do.
    offline = write_files(tmp_path / "files")
    assert len(api.install_suites(["general"], offline=offline, store=store, actor="ann")) == 2
    assert api.suites_left(["general"], offline=offline, store=store) == []
