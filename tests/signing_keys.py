"""Pairs of keys in files, and which of them this process signs with and trusts."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from ft_resources.signatures import SIGNING_KEY, TRUSTED_KEYS


def make_pair(folder: Path, name: str, curve: ec.EllipticCurve | None = None) -> tuple[Path, Path]:
    """The files of a private and a public key."""
    key = ec.generate_private_key(curve or ec.SECP256R1())
    folder.mkdir(exist_ok=True)
    private, public = folder / f"{name}.key", folder / f"{name}.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


def signs_with(monkeypatch: pytest.MonkeyPatch, private: Path) -> None:
    monkeypatch.setenv(SIGNING_KEY, str(private))


def trusts(monkeypatch: pytest.MonkeyPatch, public: Path) -> None:
    monkeypatch.setenv(TRUSTED_KEYS, str(public))
