"""A look at the store reads each thing once, and sees it as it was."""

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
