"""A look at the store reads each thing once, and sees it as it was."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ft_resources.store import Store
from ft_resources.store_glance import Glance


def test_what_was_seen_is_not_read_again_and_stays_as_it_was(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.put("acme/a.json", b"1")
    seen = Glance(store)
    for _ in range(3):
        assert seen.get("acme/a.json") == b"1"
        assert seen.find_json("acme/b.json") is None
        assert not seen.exists("acme/c.json")
        assert seen.names("acme") == ["a.json"]
        assert seen.tenants() == ["acme"]
        assert [each.path for each in seen.entries("acme")] == ["acme/a.json"]
        for name in ("a", "b", "c"):
            store.put(f"acme/{name}.json", b"2")
        store.put("other/a.json", b"2")
    with pytest.raises(FileNotFoundError):
        seen.get("acme/b.json")
    assert Glance(store).get("acme/b.json") == b"2"


def test_what_one_look_noted_the_next_one_reads_ahead_and_absence_is_no_error(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.put("acme/a.json", b"1")
    noting = Glance(store).noting()
    assert (noting.get("acme/a.json"), noting.find_json("acme/b.json")) == (b"1", None)
    assert (noting.names("acme"), noting.tenants()) == (["a.json"], ["acme"])
    assert noting.looks == {("get", "acme/a.json"), ("get", "acme/b.json"), ("names", "acme")}
    store.put("acme/a.json", b"2")
    with ThreadPoolExecutor(2) as readers:
        seen = Glance(store)
        seen.ahead(noting.looks, readers)
    store.put("acme/a.json", b"3")
    store.put("acme/b.json", b"3")
    assert (seen.get("acme/a.json"), seen.find_json("acme/b.json"), seen.names("acme")) == (b"2", None, ["a.json"])


def test_of_what_lasts_only_its_absence_is_looked_at_again(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.put("names/a.json", b"1")
    for found in (None, {"n": 2}, {"n": 2}):
        seen = Glance(store, lasting=lambda path: path.startswith("names/"))
        assert (seen.get("names/a.json"), seen.find_json("names/b.json")) == (b"1", found)
        store.put("names/a.json", b"3")
        store.put_json("names/b.json", {"n": 2})
