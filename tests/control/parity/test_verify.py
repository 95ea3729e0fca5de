"""``ft verify`` reads the checks of parity: one that was altered is named, and a proof that production lacks told."""

from pathlib import Path

import pytest

from ft_assets import api
from ft_assets.control.lines.promotion import promote
from ft_assets.control.parity.records import list_parity
from ft_assets.settings.servers import ServersFile
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import Artifact
from tests.control.lines.promotable import LINE, SERVED, Promotable, decided, flip
from tests.control.parity.test_demanded import STRICT, VLLM, checked, embedded
from tests.control.parity.test_demanded import line as line


def findings(line: Promotable, tenants: TenantsFile = SERVED, *, everything: bool = False) -> list[str]:
    target = "" if everything else LINE
    store, servers = line.world.store, ServersFile()
    return [*api.verify(target, everything=everything, store=store, tenants=tenants, servers=servers).findings]


def in_production(line: Promotable) -> Artifact:
    adapter = line.adapter()
    promote(line.world.artifacts, str(adapter.address), "production", decided())
    return adapter


def paths_of(line: Promotable, adapter: Artifact) -> list[str]:
    return sorted(entry.path for entry in line.world.store.entries(f"acme/parity/{adapter.digest}"))


@pytest.mark.parametrize("everything", [False, True])
def test_one_flipped_byte_in_any_record_of_a_check_is_found_and_named(line: Promotable, everything: bool) -> None:
    adapter = in_production(line)
    for outcome in ("failed", "proved"):
        checked(line, adapter, embedded(line), outcome)  # type: ignore[arg-type]
    checked(line, adapter, VLLM)
    assert findings(line, everything=everything) == []
    paths = paths_of(line, adapter)
    assert len(paths) == 3
    for path in paths:
        file = Path(line.world.store.local_path(path))
        file.chmod(0o644)
        size = file.stat().st_size
        for place in {0, size // 3, size // 2, size - 1}:
            data = flip(file, place)
            found = findings(line, everything=everything)
            file.write_bytes(data)
            # A record that was altered, or the one after it, which names its digest.
            assert any(each.startswith(path.rpartition("/")[0]) for each in found), (path, place, found)
    assert findings(line, everything=everything) == []


def test_a_check_that_was_removed_before_a_later_one_is_found(line: Promotable) -> None:
    adapter = in_production(line)
    for _ in range(2):
        checked(line, adapter, embedded(line))
    line.world.store.delete(paths_of(line, adapter)[0])
    (finding,) = findings(line, STRICT)
    assert finding.endswith("000001.json: a record is missing before a later one of this log")


def test_production_without_the_proof_that_it_needs_is_told_until_it_has_it(line: Promotable) -> None:
    adapter = in_production(line)
    assert findings(line) == []
    for everything in (False, True):
        assert findings(line, STRICT, everything=everything) == [
            f"{LINE}: production needs a proof of parity, and {adapter.address} has none on embedded "
            f"({embedded(line).sentence}): not checked"
        ]
    checked(line, adapter, embedded(line), "failed")
    (finding,) = findings(line, STRICT)
    assert finding.endswith("failed: it differs")
    checked(line, adapter, embedded(line))
    assert findings(line, STRICT) == []


def test_staging_and_what_stood_in_production_before_need_no_proof(line: Promotable) -> None:
    in_production(line)
    second = line.adapter(2)
    promote(line.world.artifacts, str(second.address), "production", decided())
    checked(line, second, embedded(line))
    promote(line.world.artifacts, str(line.adapter(3).address), "staging", decided())
    assert findings(line, STRICT) == []


def test_checks_of_an_adapter_that_never_stood_in_a_line_are_read_with_all_else(line: Promotable) -> None:
    in_production(line)
    other = line.adapter(2)
    checked(line, other, embedded(line))
    (record,) = list_parity(line.world.store, other)
    file = Path(line.world.store.local_path(record.path))
    file.chmod(0o644)
    flip(file)
    assert findings(line) == []
    (finding,) = findings(line, everything=True)
    assert finding.startswith(f"{record.path}: ")
