"""Whatever gets to a stage or a share of traffic is signed, or does not get there."""

from pathlib import Path

import pytest

from ft_assets.control.lines.lines import read_line
from ft_assets.control.lines.promotion import promote, rollback
from ft_assets.control.lines.verify import verify, verify_line
from ft_resources.signatures import Unsigned, require_signed
from tests.control.lines.promotable import LINE, Promotable, decided
from tests.signing_keys import make_pair, signs_with, trusts


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
    promote(line.world.artifacts, str(second.address), "staging", decided())
    require_signed(line.world.store, second)
    rollback(line.world.artifacts, LINE, decided(), stage="staging")
    require_signed(line.world.store, first)


def test_who_has_no_key_promotes_only_what_was_signed_where_signatures_are_demanded(
    line: Promotable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = line.adapter()
    _, public = make_pair(tmp_path / "keys", "ours")
    trusts(monkeypatch, public)
    with pytest.raises(Unsigned, match="ft adapter sign"):
        promote(line.world.artifacts, str(adapter.address), "staging", decided())
    assert read_line(line.world.store, LINE).records == ()
    # Out of use goes without.
    promote(line.world.artifacts, str(adapter.address), "archived", decided())


def test_verification_tells_what_no_trusted_key_signed(
    line: Promotable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = line.adapter()
    promote(line.world.artifacts, str(adapter.address), "staging", decided())
    before = list(verify_line(line.world.artifacts, LINE).findings)
    private, public = make_pair(tmp_path / "keys", "ours")
    trusts(monkeypatch, public)
    unsigned = f"{adapter.address}: none of the 1 trusted keys signed it"
    assert list(verify_line(line.world.artifacts, LINE).findings) == [*before, unsigned]
    signs_with(monkeypatch, private)
    promote(line.world.artifacts, str(adapter.address), "dev", decided())
    assert unsigned not in verify(line.world.artifacts, adapter.address).findings
