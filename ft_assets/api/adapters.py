"""Accepted adapters: list, download and sign them."""

import json
import shutil
import tempfile
from pathlib import Path

from ft_assets.api.addresses import find_address
from ft_assets.api.defaults import store_or_default
from ft_assets.api.own_keys import own_line
from ft_assets.control import identity
from ft_assets.control.rollouts.sign import sign_decided
from ft_assets.settings.ungated import UNGATED, without_gates
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.canonical import sha256_file
from ft_resources.errors import UserError
from ft_resources.json_object import json_object
from ft_resources.signatures import FILE, SIGNING_KEY, known_keys, sign, signature_of, signing_key
from ft_resources.store import Store

_CONFIG = "adapter_config.json"


def list_adapters(*, tenant: str = "", store: Store | None = None) -> list[Artifact]:
    """The accepted adapters of one tenant, or of all, oldest first."""
    store = store_or_default(store)
    artifacts = Artifacts(store)
    found = []
    for name in [tenant] if tenant else store.tenants():
        for fingerprint in store.folders(f"{name}/adapter"):
            artifact = artifacts.find(Address(tenant=name, asset="adapter", fingerprint=fingerprint))
            if artifact is not None and not without_gates(artifact.manifest.identity["params"]):
                found.append(artifact)
    return sorted(found, key=lambda artifact: artifact.manifest.created_at)


def find_adapter(source: str, *, store: Store | None = None) -> Artifact:
    """The adapter at an address, or the last one of a line; an ungated result only by its address. Raises UserError if
    there is no such adapter."""
    store = store_or_default(store)
    if "/" not in source:
        source = own_line(source)
        of_line = [
            artifact
            for artifact in list_adapters(tenant=source.partition(".")[0], store=store)
            if artifact.facts["line"] == source
        ]
        if not of_line:
            raise UserError(
                f"line {source!r} has no accepted adapter yet",
                where="line",
                remedy="List the accepted adapters: ft adapter list",
            )
        return of_line[-1]
    artifact = Artifacts(store).get(find_address(source, store=store))
    if artifact.address.asset not in ("adapter", UNGATED):
        raise UserError(
            f"this is a {artifact.address.asset}, not an adapter",
            where=source,
            remedy="Name an adapter, which has passed the gates.",
        )
    return artifact


def download_adapter(source: str, target: Path | str, *, store: Store | None = None) -> Artifact:
    """Copy an adapter to a folder that does not exist yet: every byte verified, all files or none.

    ``source`` is an address or a line. If a trusted key, or this process's own, signed it, the signature is written as
    ``model.sig``. Raises UserError if there is no such adapter, and if the folder exists or cannot be written;
    CorruptArtifact for changed bytes.
    """
    return copy_out(find_adapter(source, store=store), target, signature=adapter_signature(source, store=store))


def adapter_signature(source: str, *, store: Store | None = None) -> str:
    """The adapter's signature by a trusted key, or by this process's own key, in the format of OpenSSF's
    ``model_signing``; an empty string if it is not signed. Raises the errors of ``find_adapter``."""
    store = store_or_default(store)
    return (signature_of(store, find_adapter(source, store=store), known_keys()) or b"").decode()


def sign_adapter(source: str, *, store: Store | None = None) -> tuple[Artifact, bool]:
    """Sign an accepted adapter and the records that put it into stages or rollouts, as a promotion does; for what was
    decided before there was this key. A line stands for its last adapter and all of its records. The second value is
    False if this key had signed all of it already. Raises UserError without ``FT_SIGNING_KEY``."""
    store = store_or_default(store)
    key = signing_key()
    if key is None:
        remedy = "Set it to the file of the private key. Only people who decide on promotions should have access to it."
        raise UserError("no signing key is set", where=SIGNING_KEY, remedy=remedy)
    adapter = find_adapter(source, store=store)
    identity.require_gated(adapter.manifest.identity["params"], str(adapter.address))
    new = sign(store, adapter, key)
    of_line = "/" not in source
    decided = sign_decided(Artifacts(store), str(adapter.facts["line"]), None if of_line else adapter.ref)
    return adapter, decided or new


def download_base(source: str, target: Path | str, *, adapter: Path | str = "", store: Store | None = None) -> Artifact:
    """The same for the base model of an adapter. ``adapter`` is the folder of the downloaded adapter, if it is to name
    the copy as its base, so that ``AutoPeftModelForCausalLM.from_pretrained`` loads the folder.

    Raises UserError for a folder that holds another adapter or none; nothing is copied then.
    """
    if adapter:
        require_downloaded(find_adapter(source, store=store), adapter)
    base = copy_out(find_base(source, store=store), target)
    if adapter:
        name_base(adapter, target)
    return base


def require_downloaded(adapter: Artifact, folder: Path | str) -> None:
    """Raise UserError unless ``folder`` holds this adapter, as PEFT reads it."""
    lineage, folder = adapter.manifest.files["lineage.json"], Path(folder)
    try:
        if (folder / _CONFIG).is_file() and sha256_file(folder / "lineage.json") == lineage.sha256:
            return
    except OSError:
        pass
    raise UserError(
        f"the PEFT adapter {adapter.address} is not there",
        where=str(folder),
        remedy=f"Name the folder that it was downloaded to: ft adapter download {adapter.address} FOLDER. A full model "
        "needs no base.",
    )


def name_base(adapter: Path | str, base: Path | str) -> None:
    """Write the folder ``base`` into the configuration of the adapter in the folder ``adapter``, as what PEFT loads it
    onto. Raises UserError where it cannot be written."""
    path = Path(adapter) / _CONFIG
    remedy = "Download the adapter again: ft adapter download"
    config = dict(json_object(path.read_bytes(), UserError, where=str(path), remedy=remedy))
    config |= {"base_model_name_or_path": str(Path(base).resolve()), "revision": None}
    try:
        path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"the adapter's configuration cannot be written ({error.strerror or error})",
            where=str(path),
            remedy="Make the file writable, or load the adapter onto the base as its README.md says.",
        ) from error


def find_base(source: str, *, store: Store | None = None) -> Artifact:
    """The base model of an adapter. Raises the errors of ``find_adapter``."""
    store = store_or_default(store)
    adapter = find_adapter(source, store=store)
    return Artifacts(store).get(Address.parse(adapter.manifest.inputs["base"].address))


def copy_out(artifact: Artifact, target: Path | str, *, signature: str = "") -> Artifact:
    """Copy all files of ``artifact`` to a folder, as ``download_adapter`` does, and its signature."""
    target = Path(target)
    if target.exists() or target.is_symlink():
        raise UserError("this path exists already", where=str(target), remedy="Name a folder that does not exist yet.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside the target, so that it is on the same disk and one rename makes it appear.
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
            whole = Path(scratch) / "whole"
            for name in artifact.manifest.files:
                verified = artifact.path(name, Path(scratch) / "fetched")
                copy = whole / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(verified, copy)
            if signature:
                (whole / FILE).write_text(signature, encoding="utf-8")
            whole.rename(target)
    except OSError as error:
        raise UserError(
            f"the folder cannot be written ({error.strerror or error})",
            where=str(target),
            remedy="Name a writable folder on a disk with enough space. No partial files were left behind.",
        ) from error
    return artifact
