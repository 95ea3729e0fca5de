"""Content-addressed uploads: the folder of a ``folder:`` base, and evaluation suites."""

import tempfile
import uuid
from pathlib import Path
from typing import Any

from ft_resources.artifacts import MANIFEST, Address, Artifact, Artifacts
from ft_resources.canonical import digest
from ft_resources.errors import UserError


def upload_address(tenant: str, asset: str, content: str) -> Address:
    """Address of uploaded files with the content digest ``content`` (64 hex characters)."""
    return Address(tenant=tenant, asset=asset, fingerprint=digest(_identity(asset, content)))


def publish_upload(
    artifacts: Artifacts,
    address: Address,
    files: dict[str, Path],
    content: str,
    *,
    facts: dict[str, Any] | None = None,
    actor: str,
) -> Artifact:
    """Publish ``files`` (stored name to local path) at their address; an existing artifact is not uploaded again.

    Raises UserError if a file changed after ``content`` was computed.
    """
    present = artifacts.find(address)
    if present is not None:
        return present
    with tempfile.TemporaryDirectory(prefix="ft-upload-") as staging:
        for name, path in files.items():
            (Path(staging) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(staging) / name).symlink_to(path.resolve())
        artifact = artifacts.publish(
            address,
            Path(staging),
            writer=f"upload-{uuid.uuid4().hex[:8]}",
            identity=_identity(address.asset, content),
            facts=facts,
            actor=actor,
        )
    if artifact.digest != content:
        # No name points to it yet, and it must not stay at the address of other content.
        artifacts.store.delete(f"{address}/{MANIFEST}")
        raise UserError(
            "the files changed while they were uploaded",
            where=str(next(iter(files.values())).parent),
            remedy="Register again when nobody writes to the folder.",
        )
    return artifact


def _identity(asset: str, content: str) -> dict[str, Any]:
    return {"asset": asset, "code_version": "1", "inputs": {}, "params": {"digest": content}}
