"""Verification: one flipped byte in any file of a lineage is found, and said where."""

from pathlib import Path

import pytest

from ft_assets.control.erasure.collect import collect
from ft_assets.control.lines.lines import record_path
from ft_assets.control.lines.promotion import promote
from ft_assets.control.lines.verify import verify, verify_line
from ft_assets.records.tombstones import Subject, delete
from ft_assets.settings.keys import DatasetKey
from ft_resources.errors import UserError
from ft_resources.store_layout import MARKER
from tests.control.erasure.test_collect import LATER
from tests.control.lines.promotable import LINE, RECIPE, Promotable, decided, flip

CHAIN = ("adapter", "eval_report", "checkpoint", "token_pack", "dataset", "raw_dataset", "base_model", "suite")


def files_below(line: Promotable) -> list[Path]:
    root = line.world.store.root
    assert root is not None
    # Whom is still to be told of what is no part of what was made, and the marker is read when the store is opened.
    other = {"notices_due", MARKER}
    return sorted(path for path in root.rglob("*") if path.is_file() and not other & set(path.parts))


@pytest.mark.statistics
def test_one_flipped_byte_in_any_file_of_the_store_is_found_and_named(line: Promotable) -> None:
    """The adapter, its report, training, pack, dataset, upload, base, suite, names and log: each file, at its ends and
    within."""
    artifacts = line.world.artifacts
    adapter = line.adapter()
    promote(artifacts, str(adapter.address), "staging", decided())
    assert verify_line(artifacts, LINE).findings == []
    paths = files_below(line)
    store = line.world.store
    kinds = {store.layout.path(str(path.relative_to(store.root or ""))).split("/")[1] for path in paths}
    assert kinds >= {
        "adapter",
        "eval_report",
        "checkpoint",
        "token_pack",
        "dataset",
        "raw_dataset",
        "base_model",
        "lines",
    }
    for path in paths:
        size = path.stat().st_size
        for place in {0, size // 3, size // 2, size - 1}:
            data = flip(path, place)
            findings = verify_line(artifacts, LINE).findings
            path.write_bytes(data)
            if "names" in path.parts and not findings:
                # Who added a version, and when, is in no hash; what the name leads to is.
                assert path.name.startswith("acme.things")
                continue
            assert findings, f"{path} at {place}"
            named = path.name if path.name != "manifest.json" else path.parent.name
            assert any(named in finding for finding in findings), (path, findings)
    assert verify_line(artifacts, LINE).findings == []


def test_a_name_that_leads_elsewhere_and_a_recipe_that_was_altered_are_found(line: Promotable) -> None:
    artifacts, store = line.world.artifacts, line.world.store
    adapter = line.adapter()
    pointer = store.get_json("names/dataset/acme.things.v1.json")
    store.put_json("names/dataset/acme.things.v1.json", {**pointer, "digest": "0" * 64})
    (finding,) = verify(artifacts, adapter.address).findings
    assert "names/dataset/acme.things.v1.json: the name refers to other bytes" in finding
    store.put_json("names/dataset/acme.things.v1.json", pointer)
    path = f"names/recipe/{RECIPE}.json"
    record = store.get_json(path)
    store.put_json(path, {**record, "recipe": {**record["recipe"], "description": "another"}})
    (finding,) = verify(artifacts, adapter.address).findings
    assert f"{path}: the recipe's record does not match its digest" in finding


def test_another_spelling_of_the_same_manifest_is_a_change(line: Promotable) -> None:
    adapter = line.adapter()
    path = f"{adapter.address}/manifest.json"
    store = line.world.store
    store.put(path, store.get(path).replace(b'"version":1', b'"version": 1'))
    assert verify(line.world.artifacts, adapter.address).findings == [f"{path}: the manifest's bytes were altered"]


def test_what_was_erased_is_told_and_is_no_finding(line: Promotable) -> None:
    artifacts = line.world.artifacts
    adapter = line.adapter()
    promote(artifacts, str(adapter.address), "staging", decided())
    promote(artifacts, str(adapter.address), "archived", decided())
    delete(line.world.store, Subject.dataset(DatasetKey.parse("acme.things.v1")), actor="ann", reason="asked to")
    collect(artifacts, LATER)
    verified = verify_line(artifacts, LINE)
    assert verified.findings == []
    assert len(verified.erased) == 6
    assert all("erased, deleted by ann" in text and "(asked to)" in text for text in verified.erased)


def test_a_line_without_a_log_is_an_error_and_a_broken_log_a_finding(line: Promotable) -> None:
    with pytest.raises(UserError, match="nothing was ever promoted"):
        verify_line(line.world.artifacts, LINE)
    line.world.store.put(record_path(LINE, 1), b"{}")
    (finding,) = verify_line(line.world.artifacts, LINE).findings
    assert finding.startswith(f"{record_path(LINE, 1)}: the record cannot be read")
