"""Signatures hold exactly an artifact's content, by exactly the keys that are trusted, and OpenSSL agrees."""

import base64
import json
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from ft_resources.artifacts import Artifact
from ft_resources.canonical import canonical_json
from ft_resources.errors import Misconfigured
from ft_resources.signatures import (
    SIGNING_KEY,
    TRUSTED_KEYS,
    Unsigned,
    known_keys,
    require_signed,
    sign,
    signature_of,
    signing_key,
    trusted_keys,
)
from ft_resources.store import Store
from tests.control.serving.world import Lines
from tests.signing_keys import make_pair, signs_with, trusts

CURVES = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    return Lines(Store(str(tmp_path / "store")))


@pytest.fixture
def adapter(lines: Lines) -> Artifact:
    return lines.adapter(lines.base())


def path_of(store: Store, adapter: Artifact) -> str:
    (entry,) = store.entries(f"acme/signatures/{adapter.digest}")
    return entry.path


@pytest.mark.parametrize("curve", CURVES)
def test_what_a_key_signed_its_public_half_verifies_and_openssl_too(
    lines: Lines, adapter: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, curve: str
) -> None:
    private, public = make_pair(tmp_path / "keys", "ours", CURVES[curve])
    signs_with(monkeypatch, private)
    trusts(monkeypatch, public)
    assert sign(lines.store, adapter, signing_key())
    require_signed(lines.store, adapter)
    # A second signature of the same key changes nothing.
    assert not sign(lines.store, adapter, signing_key())
    envelope = json.loads(signature_of(lines.store, adapter, trusted_keys()))["dsseEnvelope"]
    payload = base64.b64decode(envelope["payload"])
    (tmp_path / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    (tmp_path / "signed").write_bytes(b"DSSEv1 28 application/vnd.in-toto+json %d %s" % (len(payload), payload))
    digest = f"-sha{ {'P-256': 256, 'P-384': 384, 'P-521': 512}[curve] }"
    verify = ["openssl", "dgst", digest, "-verify", public, "-signature", tmp_path / "sig", tmp_path / "signed"]
    assert subprocess.run(verify, capture_output=True, text=True, check=True).stdout == "Verified OK\n"


def test_the_statement_lists_the_content_and_not_what_explains_it(
    lines: Lines, adapter: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signs_with(monkeypatch, make_pair(tmp_path / "keys", "ours")[0])
    sign(lines.store, adapter, signing_key())
    bundle = json.loads(signature_of(lines.store, adapter, known_keys()))
    statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    signed = {each["name"]: each["digest"] for each in statement["predicate"]["resources"]}
    files = {name: entry.sha256 for name, entry in adapter.manifest.files.items() if name != "log/x.txt"}
    assert (signed, statement["subject"][0]["name"]) == (files, str(adapter.address))


def test_nothing_is_demanded_where_no_key_is_trusted(lines: Lines, adapter: Artifact) -> None:
    require_signed(lines.store, adapter)
    assert (signing_key(), trusted_keys(), list(known_keys())) == (None, None, [])


def test_another_key_another_adapters_signature_and_each_damaged_one_are_none(
    lines: Lines, adapter: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = tmp_path / "keys"
    private, public = make_pair(keys, "ours")
    trusts(monkeypatch, public)
    signs_with(monkeypatch, make_pair(keys, "theirs")[0])
    sign(lines.store, adapter, signing_key())
    with pytest.raises(Unsigned, match="none of the 1 trusted keys signed it"):
        require_signed(lines.store, adapter)
    # Each of a folder's keys counts.
    trusts(monkeypatch, keys)
    require_signed(lines.store, adapter)

    trusts(monkeypatch, public)
    signs_with(monkeypatch, private)
    other = lines.adapter(lines.base(), 2)
    sign(lines.store, other, signing_key())
    good = lines.store.get(path_of(lines.store, other))
    place = path_of(lines.store, other).replace(other.digest, adapter.digest)
    flipped = json.loads(good)
    signature = bytearray(base64.b64decode(flipped["dsseEnvelope"]["signatures"][0]["sig"]))
    signature[-1] ^= 1
    flipped["dsseEnvelope"]["signatures"][0]["sig"] = base64.b64encode(signature).decode()
    odd = b'{"dsseEnvelope": {"payload": 1, "signatures": [{}]}}'
    for data in (good, b"", b"[]", b"{}", b"[" * 100_000, odd, b"\xff"):
        lines.store.put(place, data)
        with pytest.raises(Unsigned):
            require_signed(lines.store, adapter)
    lines.store.put(path_of(lines.store, other), canonical_json(flipped))
    with pytest.raises(Unsigned):
        require_signed(lines.store, other)


def test_keys_that_cannot_be_used_are_told_with_their_file_and_never_with_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty, words = tmp_path / "empty", tmp_path / "words.pem"
    empty.mkdir()
    words.write_text("hunter2")
    private, public = make_pair(tmp_path / "keys", "ours")
    unusual, _ = make_pair(tmp_path / "keys", "unusual", ec.SECP256K1())
    for path in (empty, words, private, tmp_path / "nowhere"):
        trusts(monkeypatch, path)
        with pytest.raises(Misconfigured) as caught:
            trusted_keys()
        assert caught.value.where == f"{TRUSTED_KEYS}: {path}"
        assert "hunter2" not in str(caught.value)
    for path in (words, public, unusual):
        signs_with(monkeypatch, path)
        with pytest.raises(Misconfigured, match="the key cannot be used") as caught:
            signing_key()
        assert caught.value.where == f"{SIGNING_KEY}: {path}"
