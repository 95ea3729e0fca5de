"""Signatures of artifacts, and of the decisions about what is served.

Those of artifacts have OpenSSF's Model Signing format 1.0, so that its own tool verifies a downloaded folder: an
in-toto statement lists the files; a DSSE envelope in a Sigstore bundle carries it and an ECDSA signature
(https://github.com/ossf/model-signing-spec, https://github.com/secure-systems-lab/dsse). A decision is signed in the
same envelope: its payload is the record.

    <tenant>/signatures/<content digest>/<key>.json     the bundle; <key>: SHA-256 of the public key's PEM
    <tenant>/signatures/<sha256 of a record>/<key>.json
"""

import base64
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ft_resources.artifacts import EXPLAINING_FOLDERS, Artifact
from ft_resources.canonical import canonical_json, sha256_bytes
from ft_resources.errors import CorruptArtifact, Misconfigured, first_line
from ft_resources.store import Store

if TYPE_CHECKING:
    # It loads OpenSSL, and few processes sign or verify.
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.hashes import HashAlgorithm

SIGNING_KEY, TRUSTED_KEYS = "FT_SIGNING_KEY", "FT_TRUSTED_KEYS"
FILE = "model.sig"
"""Where a signature lies in a downloaded folder."""
_BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
_IN_TOTO, _DECISION = "application/vnd.in-toto+json", "application/vnd.ft.decision+json"
# Verified decisions, by key and digest: logs are read often, and neither the record nor the key can change.
_VERIFIED: set[tuple[str, str]] = set()
# What a copy may lack or hold besides: explanations may be erased, and the signature itself lies there.
_IGNORED = [*(folder.rstrip("/") for folder in EXPLAINING_FOLDERS), FILE]
_CURVES = {"secp256r1": "SHA256", "secp384r1": "SHA384", "secp521r1": "SHA512"}


class Unsigned(CorruptArtifact):
    """No trusted key signed these bytes."""


class _Signed(NamedTuple):
    """The signed bytes, their media type, and the folder of their signatures."""

    payload: bytes
    kind: str
    folder: str


def signing_key() -> "EllipticCurvePrivateKey | None":
    """The private key that ``FT_SIGNING_KEY`` names, None where it is not set. Raises Misconfigured."""
    return _private_key(Path(path)) if (path := os.environ.get(SIGNING_KEY)) else None


def trusted_keys() -> "Sequence[EllipticCurvePublicKey] | None":
    """The public keys that ``FT_TRUSTED_KEYS`` names, a PEM file or a folder of them; None where it is not set, so
    that signatures are not demanded. Raises Misconfigured, also for a folder without keys."""
    path = os.environ.get(TRUSTED_KEYS)
    if not path:
        return None
    files = sorted(Path(path).glob("*.pem")) if Path(path).is_dir() else [Path(path)]
    if not files:
        remedy = "Put the public keys there, as PEM."
        raise Misconfigured("the folder holds no *.pem", where=f"{TRUSTED_KEYS}: {path}", remedy=remedy)
    return [_public_key(file) for file in files]


def can_sign() -> bool:
    """Whether this process gives the signatures that ``FT_TRUSTED_KEYS`` demands, if it demands any. Raises
    Misconfigured."""
    trusted = trusted_keys()
    if trusted is None:
        return True
    key = signing_key()
    return key is not None and _key_id(key.public_key()) in map(_key_id, trusted)


def known_keys() -> "Sequence[EllipticCurvePublicKey]":
    """The trusted keys, else this process's own; empty where there are neither. Raises Misconfigured."""
    trusted, own = trusted_keys(), signing_key()
    return trusted if trusted is not None else [own.public_key()] if own is not None else []


def sign(store: Store, artifact: Artifact, key: "EllipticCurvePrivateKey") -> bool:
    """Keep a signature of the artifact by ``key``; False where there is one. Raises StoreUnavailable."""
    return _sign(store, _content(artifact), key)


def sign_decision(store: Store, tenant: str, record: bytes, key: "EllipticCurvePrivateKey") -> bool:
    """The same for the bytes of a decision's record, which name what is served, where, on which base and since when."""
    return _sign(store, _decision(tenant, record), key)


def signature_of(store: Store, artifact: Artifact, keys: "Iterable[EllipticCurvePublicKey]") -> bytes | None:
    """The bundle of the first of ``keys`` that signed exactly this artifact; None where none did. A damaged bundle is
    none. Raises StoreUnavailable."""
    return _signature_of(store, _content(artifact), keys)


def require_signed(store: Store, artifact: Artifact) -> None:
    """Raise Unsigned where ``FT_TRUSTED_KEYS`` demands a signature and no key of it signed the artifact; Misconfigured;
    StoreUnavailable."""
    keys = trusted_keys()
    if keys is not None and signature_of(store, artifact, keys) is None:
        raise unsigned(str(artifact.address), str(artifact.address))


def is_decision_signed(store: Store, tenant: str, record: bytes) -> bool:
    """Whether a trusted key signed the bytes of a decision's record, or none is demanded. Raises Misconfigured and
    StoreUnavailable."""
    keys = trusted_keys()
    if keys is None:
        return True
    signed = _decision(tenant, record)
    for key in keys:
        known = _key_id(key), sha256_bytes(record)
        if known in _VERIFIED or _signature_of(store, signed, [key]) is not None:
            _VERIFIED.add(known)
            return True
    return False


def unsigned(where: str, adapter: str) -> Unsigned:
    """The error that no trusted key signed what is at ``where``, which is about an adapter."""
    return Unsigned(
        f"none of the {len(trusted_keys() or ())} trusted keys signed it",
        where=where,
        remedy=f"If it is as you decided, sign it where the key is: {SIGNING_KEY}=… ft adapter sign {adapter}",
    )


def _sign(store: Store, signed: _Signed, key: "EllipticCurvePrivateKey") -> bool:
    return store.create(_path(signed, key.public_key()), canonical_json(_bundle(signed, key)))


def _signature_of(store: Store, signed: _Signed, keys: "Iterable[EllipticCurvePublicKey]") -> bytes | None:
    for key in keys:
        try:
            bundle = store.get(_path(signed, key))
        except FileNotFoundError:
            continue
        if _is_signed(bundle, signed, key):
            return bundle
    return None


def _bundle(signed: _Signed, key: "EllipticCurvePrivateKey") -> dict[str, Any]:
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA

    signature = key.sign(_encoded(signed), ECDSA(_hash(key.public_key())))
    return {
        "mediaType": _BUNDLE,
        "verificationMaterial": {"publicKey": {"hint": _key_id(key.public_key())}, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": base64.b64encode(signed.payload).decode(),
            "payloadType": signed.kind,
            "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": ""}],
        },
    }


def _is_signed(bundle: bytes, signed: _Signed, key: "EllipticCurvePublicKey") -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA

    try:
        envelope = json.loads(bundle)["dsseEnvelope"]
        (signature,) = envelope["signatures"]
        if base64.b64decode(envelope["payload"], validate=True) != signed.payload:
            return False
        key.verify(base64.b64decode(signature["sig"], validate=True), _encoded(signed), ECDSA(_hash(key)))
    except (InvalidSignature, ValueError, KeyError, TypeError, RecursionError):
        return False
    return True


def _content(artifact: Artifact) -> _Signed:
    """The in-toto statement of the files that are the artifact's content; the same bytes each time."""
    files = {
        name: entry.sha256
        for name, entry in sorted(artifact.manifest.files.items())
        if not name.startswith(EXPLAINING_FOLDERS)
    }
    root = hashlib.sha256(b"".join(bytes.fromhex(digest) for digest in files.values())).hexdigest()
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": str(artifact.address), "digest": {"sha256": root}}],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": {
            "serialization": {
                "method": "files",
                "hash_type": "sha256",
                "allow_symlinks": False,
                "ignore_paths": _IGNORED,
            },
            "resources": [{"name": name, "algorithm": "sha256", "digest": digest} for name, digest in files.items()],
        },
    }
    return _Signed(canonical_json(statement), _IN_TOTO, f"{artifact.address.tenant}/signatures/{artifact.digest}")


def _decision(tenant: str, record: bytes) -> _Signed:
    return _Signed(record, _DECISION, f"{tenant}/signatures/{sha256_bytes(record)}")


def _encoded(signed: _Signed) -> bytes:
    """DSSE's pre-authentication encoding: what is signed."""
    return b"DSSEv1 %d %s %d %s" % (len(signed.kind), signed.kind.encode(), len(signed.payload), signed.payload)


def _path(signed: _Signed, key: "EllipticCurvePublicKey") -> str:
    return f"{signed.folder}/{_key_id(key)}.json"


def _key_id(key: "EllipticCurvePublicKey") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return hashlib.sha256(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def _hash(key: "EllipticCurvePublicKey") -> "HashAlgorithm":
    from cryptography.hazmat.primitives import hashes

    made: HashAlgorithm = getattr(hashes, _CURVES[key.curve.name])()
    return made


@cache
def _private_key(path: Path) -> "EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = _loaded(path, SIGNING_KEY, lambda data: load_pem_private_key(data, None))
    if not isinstance(key, EllipticCurvePrivateKey) or key.curve.name not in _CURVES:
        raise _unusable(path, SIGNING_KEY, "it is not a private key on the curve P-256, P-384 or P-521")
    return key


@cache
def _public_key(path: Path) -> "EllipticCurvePublicKey":
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    key = _loaded(path, TRUSTED_KEYS, load_pem_public_key)
    if not isinstance(key, EllipticCurvePublicKey) or key.curve.name not in _CURVES:
        raise _unusable(path, TRUSTED_KEYS, "it is not a public key on the curve P-256, P-384 or P-521")
    return key


def _loaded(path: Path, variable: str, load: Any) -> object:
    try:
        found: object = load(path.read_bytes())
        return found
    except (OSError, ValueError, TypeError) as error:
        # TypeError: a private key with a passphrase.
        raise _unusable(path, variable, first_line(error)) from error


def _unusable(path: Path, variable: str, why: str) -> Misconfigured:
    remedy = "Make a pair: openssl ecparam -name prime256v1 -genkey -noout, and openssl ec -pubout."
    return Misconfigured(f"the key cannot be used: {why}", where=f"{variable}: {path}", remedy=remedy)
