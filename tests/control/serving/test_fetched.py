"""Adapters that an engine fetches by their names: which, verified, and how long their copies stay."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ft_assets.control.rollouts.sign import sign_decided
from ft_assets.control.serving.fetched import FetchedAdapters
from ft_assets.records import tombstones
from ft_assets.records.tombstones import Subject
from ft_resources.artifacts import Artifact
from ft_resources.errors import CorruptArtifact, NotFound, StoreUnavailable
from ft_resources.serving.adapter_folders import AdapterFolders
from ft_resources.serving.errors import BadAdapter
from ft_resources.signatures import Unsigned, sign, signing_key
from ft_resources.store import Store
from tests.control.lines.promotable import LINE
from tests.control.serving.world import COMMIT, SOURCE, Lines
from tests.signing_keys import make_pair, signs_with, trusts

BASE = f"{SOURCE}@{COMMIT}"
PADDING = b"0" * 1000


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    return Lines(Store(str(tmp_path / "store")))


@pytest.fixture
def base(lines: Lines) -> Artifact:
    return lines.base()


def fetching(lines: Lines, folder: Path, *, base: str = BASE, limit: int = 1 << 20) -> FetchedAdapters:
    return FetchedAdapters(lines.artifacts, AdapterFolders(folder, limit), base)


def name_of(adapter: Artifact) -> str:
    return f"{LINE}@{adapter.digest[:16]}"


def promoted(lines: Lines, base: Artifact, number: int) -> str:
    weights = b"%d" % number + PADDING
    adapter = lines.adapter(base, {"adapter_config.json": b"{}", "adapter_model.safetensors": weights})
    lines.promote(adapter, base, "staging")
    return name_of(adapter)


@pytest.fixture
def adapter(lines: Lines, base: Artifact) -> Artifact:
    """An adapter in staging."""
    adapter = lines.adapter(base)
    lines.promote(adapter, base, "staging")
    return adapter


def test_a_name_with_a_digest_is_a_verified_folder_named_by_it(lines: Lines, adapter: Artifact, tmp_path: Path) -> None:
    digest, folder = fetching(lines, tmp_path / "copies").take(name_of(adapter))
    assert (digest, folder) == (adapter.digest, tmp_path / "copies" / adapter.digest)
    assert (folder / "adapter_model.safetensors").read_bytes() == b"1"
    assert not (folder / "log").exists()


def test_a_name_that_may_mean_other_bytes_tomorrow_means_nothing(lines, base, adapter, tmp_path) -> None:
    lines.promote(adapter, base)
    fetched = fetching(lines, tmp_path / "copies")
    for name in (LINE, f"{LINE}@staging"):
        with pytest.raises(NotFound, match="does not identify an adapter") as caught:
            fetched.take(name)
        assert name_of(adapter) in caught.value.remedy


@pytest.mark.parametrize("name", ["", "acme", "..@x", f"{LINE}@0123456789abcdef", "globex.things.tiny", "a/../b.c.d@1"])
def test_a_name_of_nothing_is_not_found(lines: Lines, base: Artifact, tmp_path: Path, name: str) -> None:
    lines.promote(lines.adapter(base), base)
    with pytest.raises(NotFound):
        fetching(lines, tmp_path / "copies").take(name)
    assert not (tmp_path / "copies").exists()


def test_what_was_archived_or_deleted_is_not_fetched_again(lines: Lines, base: Artifact, tmp_path: Path) -> None:
    archived, deleted = lines.adapter(base, 1), lines.adapter(base, 2)
    fetched = fetching(lines, tmp_path / "copies")
    for adapter in (archived, deleted):
        lines.promote(adapter, base, "staging")
        fetched.take(name_of(adapter))
    lines.promote(archived, base, "archived")
    tombstones.delete(lines.store, Subject.adapter(deleted.address), actor="ann", reason="wrong")
    for adapter in (archived, deleted):
        with pytest.raises(NotFound):
            fetched.take(name_of(adapter))


def test_an_adapter_of_another_base_and_a_whole_model_are_refused(lines: Lines, base: Artifact, tmp_path: Path) -> None:
    adapter, whole = lines.adapter(base), lines.adapter(base, {"model.safetensors": b"1"})
    for each in (adapter, whole):
        lines.promote(each, base, "staging")
    with pytest.raises(BadAdapter, match=f"was trained on {BASE}, and this server has hub:acme/other@"):
        fetching(lines, tmp_path / "copies", base=f"hub:acme/other@{COMMIT}").take(name_of(adapter))
    with pytest.raises(BadAdapter, match="complete model"):
        fetching(lines, tmp_path / "copies").take(name_of(whole))
    assert not (tmp_path / "copies").exists()


def test_damaged_bytes_are_no_adapter(lines: Lines, adapter: Artifact, tmp_path: Path) -> None:
    lines.store.put(adapter.location("adapter_model.safetensors"), b"2")
    with pytest.raises(CorruptArtifact):
        fetching(lines, tmp_path / "copies").take(name_of(adapter))
    assert not list((tmp_path / "copies").glob("[0-9a-f]*"))


def test_copies_in_use_stay_and_others_make_room(lines: Lines, base: Artifact, tmp_path: Path) -> None:
    names = [promoted(lines, base, number) for number in range(5)]
    # Each takes about 1,000 bytes.
    fetched = fetching(lines, tmp_path / "copies", limit=2500)
    taken = [fetched.take(name) for name in names[:4]]
    assert all(folder.is_dir() for _, folder in taken)

    fetched.give_back(taken[1][0])
    fetched.take(names[4])
    assert [folder.is_dir() for _, folder in taken] == [True, False, True, True]
    # Two have it, and one of them gives it back.
    fetched.take(names[0])
    fetched.give_back(taken[0][0])
    fetched.take(names[4])
    assert taken[0][1].is_dir()


def test_a_copy_on_the_disk_needs_no_other_download(lines: Lines, base: Artifact, tmp_path: Path) -> None:
    name = promoted(lines, base, 1)
    fetching(lines, tmp_path / "copies").take(name)
    (adapter,) = (lines.store.root / "acme" / "adapter").glob("*/w*/adapter_model.safetensors")
    adapter.unlink()
    assert fetching(lines, tmp_path / "copies").take(name)[1].is_dir()


def test_a_copy_that_nobody_had_is_verified_before_its_next_use(lines: Lines, base: Artifact, tmp_path: Path) -> None:
    name = promoted(lines, base, 1)
    fetched = fetching(lines, tmp_path / "copies")
    digest, folder = fetched.take(name)
    weights = folder / "adapter_model.safetensors"
    whole = weights.read_bytes()
    fetched.give_back(digest)
    weights.write_bytes(whole[:10])
    assert fetched.take(name) == (digest, folder)
    assert weights.read_bytes() == whole


def test_many_at_once_get_one_copy_each(lines: Lines, base: Artifact, tmp_path: Path) -> None:
    names = [promoted(lines, base, number) for number in range(3)]
    fetched = fetching(lines, tmp_path / "copies", limit=1)
    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(fetched.take, names * 4))
    assert len(found) == 12
    assert all((folder / "adapter_config.json").is_file() for _, folder in found)


def test_a_store_that_is_away_is_not_an_unknown_name(lines: Lines, base: Artifact, tmp_path: Path) -> None:
    name = promoted(lines, base, 1)
    fetched = fetching(lines, tmp_path / "copies")

    def away(*_: object) -> bytes:
        raise StoreUnavailable("it is away")

    lines.store.get = away  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        fetched.take(name)


def test_an_adapter_that_no_trusted_key_signed_is_not_fetched_even_where_a_copy_is(
    lines, adapter, tmp_path, monkeypatch
) -> None:
    fetching(lines, tmp_path / "copies").take(name_of(adapter))
    private, public = make_pair(tmp_path / "keys", "ours")
    trusts(monkeypatch, public)
    with pytest.raises(Unsigned, match="none of the 1 trusted keys signed it"):
        fetching(lines, tmp_path / "copies").take(name_of(adapter))
    signs_with(monkeypatch, private)
    sign(lines.store, adapter, signing_key())
    # Nor by a record that none signed.
    with pytest.raises(Unsigned, match="none of the 1 trusted keys signed it"):
        fetching(lines, tmp_path / "copies").take(name_of(adapter))
    sign_decided(lines.artifacts, LINE)
    assert fetching(lines, tmp_path / "copies").take(name_of(adapter))[0] == adapter.digest
