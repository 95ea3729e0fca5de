"""Verification: one flipped byte in any file of a lineage is found, and what gets to a stage is signed."""

from pathlib import Path

import pytest

from ft_assets.control.erasure.collect import collect
from ft_assets.control.lines.lines import PromotionRecord, line_folder, read_line, record_path
from ft_assets.control.lines.promotion import promote, rollback
from ft_assets.control.lines.verify import verify, verify_line
from ft_assets.control.rollouts.sign import sign_decided
from ft_assets.records.chained_log import ChainedLog
from ft_assets.records.tombstones import Subject, delete
from ft_assets.settings.keys import DatasetKey
from ft_resources.artifacts import InputRef
from ft_resources.canonical import canonical_json
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.signatures import SIGNING_KEY, Unsigned, require_signed, sign, signing_key
from ft_resources.store_layout import MARKER
from tests.control.erasure.test_collect import LATER
from tests.control.lines.promotable import LINE, RECIPE, Promotable, decided, flip
from tests.signing_keys import make_pair, signs_with, trusts

CHAIN = ("adapter", "eval_report", "checkpoint", "token_pack", "dataset", "raw_dataset", "base_model")


def files_below(line: Promotable) -> list[Path]:
    root = line.world.store.root
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
    assert kinds >= {*CHAIN, "lines"}
    for path in paths:
        size = path.stat().st_size
        for place in {0, size // 2, size - 1}:
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


def test_a_name_that_leads_elsewhere_an_altered_recipe_and_another_spelling_of_a_manifest_are_found(line) -> None:
    artifacts, store, adapter = line.world.artifacts, line.world.store, line.adapter()
    recipe, name = f"names/recipe/{RECIPE}.json", "names/dataset/acme.things.v1.json"
    manifest = f"{adapter.address}/manifest.json"
    record = store.get_json(recipe)
    other = {**record, "recipe": {**record["recipe"], "description": "another"}}
    for path, data, words in (
        (name, canonical_json({**store.get_json(name), "digest": "0" * 64}), "the name refers to other bytes"),
        (recipe, canonical_json(other), "the recipe's record does not match its digest"),
        (manifest, store.get(manifest).replace(b'"version":1', b'"version": 1'), "the manifest's bytes were altered"),
    ):
        whole = store.get(path)
        store.put(path, data)
        (finding,) = verify(artifacts, adapter.address).findings
        assert f"{path}: {words}" in finding
        store.put(path, whole)


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


def test_a_promotion_signs_and_a_rollback_signs_what_stood_there_before_there_was_a_key(
    line: Promotable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = line.adapter(1), line.adapter(2)
    promote(line.world.artifacts, str(first.address), "staging", decided())
    private, public = make_pair(tmp_path / "keys", "ours")
    signs_with(monkeypatch, private)
    trusts(monkeypatch, public)
    with pytest.raises(Unsigned):
        require_signed(line.world.store, first)
    # What was decided before is nobody's word now, and no later decision vouches for it.
    for ask in (read_line, lambda *_: promote(line.world.artifacts, str(second.address), "staging", decided())):
        with pytest.raises(Unsigned, match="none of the 1 trusted keys signed it") as caught:
            ask(line.world.store, LINE)
        assert caught.value.where == record_path(LINE, 1)
    assert sign_decided(line.world.artifacts, LINE)
    promote(line.world.artifacts, str(second.address), "staging", decided())
    require_signed(line.world.store, second)
    rollback(line.world.artifacts, LINE, decided(), stage="staging")
    require_signed(line.world.store, first)


def test_who_has_no_key_promotes_nothing_where_signatures_are_demanded(
    line: Promotable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = line.adapter()
    private, public = make_pair(tmp_path / "keys", "ours")
    trusts(monkeypatch, public)
    with pytest.raises(Unsigned, match="ft adapter sign"):
        promote(line.world.artifacts, str(adapter.address), "staging", decided())
    assert read_line(line.world.store, LINE).records == ()
    # Neither by the signature of its bytes: the move itself is signed.
    signs_with(monkeypatch, private)
    sign(line.world.store, adapter, signing_key())
    monkeypatch.delenv(SIGNING_KEY)
    with pytest.raises(Unsigned, match="this process has none"):
        promote(line.world.artifacts, str(adapter.address), "staging", decided())
    assert read_line(line.world.store, LINE).records == ()
    # Out of use goes without.
    promote(line.world.artifacts, str(adapter.address), "archived", decided())


def test_verification_tells_what_no_trusted_key_signed(line, tmp_path, monkeypatch) -> None:
    adapter = line.adapter()
    promote(line.world.artifacts, str(adapter.address), "staging", decided())
    before = list(verify_line(line.world.artifacts, LINE).findings)
    private, public = make_pair(tmp_path / "keys", "ours")
    trusts(monkeypatch, public)
    unsigned = f"{adapter.address}: none of the 1 trusted keys signed it"
    unsigned_move = f"{record_path(LINE, 1)}: none of the 1 trusted keys signed it"
    assert list(verify_line(line.world.artifacts, LINE).findings) == [*before, unsigned, unsigned_move]
    signs_with(monkeypatch, private)
    sign_decided(line.world.artifacts, LINE)
    promote(line.world.artifacts, str(adapter.address), "dev", decided())
    assert unsigned not in verify(line.world.artifacts, adapter.address).findings


FORGED = {
    "another stage": {"stage": "production"},
    "another base": {"base": InputRef(address="shared/base_model/0", digest="0" * 64)},
    "another time": {"at": "2031-01-01T00:00:00.000+00:00"},
    "another adapter": {"adapter": InputRef(address="acme/adapter/0", digest="0" * 64)},
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_move_is_refused_though_its_adapter_was_signed_once(line, tmp_path, monkeypatch, forged: str) -> None:
    store = line.world.store
    older, newer = line.adapter(1), line.adapter(2)
    private, public = make_pair(tmp_path / "keys", "ours")
    signs_with(monkeypatch, private)
    trusts(monkeypatch, public)
    for adapter in (older, newer):
        promote(line.world.artifacts, str(adapter.address), "staging", decided())
    state = read_line(store, LINE)
    signed = state.records[0]
    # A chain needs no key: whoever may write to the bucket continues it well.
    changes = {"id": "forged", "seq": 3, "previous": state.head, **FORGED[forged]}
    record = signed.model_copy(update=changes)
    assert ChainedLog(store=store, folder=line_folder(LINE), kind=PromotionRecord).append(record) == record
    with pytest.raises(Unsigned, match="ft adapter sign") as caught:
        read_line(store, LINE)
    assert caught.value.where == record.path
    # Nor is it what was signed, put into its place.
    store.put(record.path, signed.data())
    with pytest.raises(CorruptArtifact):
        read_line(store, LINE)
