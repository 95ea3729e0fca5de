"""The lock: the content of a recipe's base at registration. Written once and never changed."""

import tempfile
from pathlib import Path

from ft_assets.workers.base_models.base_lock import BaseLock
from ft_assets.workers.base_models.contents import (
    INDEX,
    check_names,
    check_texts,
    inspect_base,
    is_safe_name,
    weight_files,
)
from ft_resources.artifacts import FileEntry, content_digest
from ft_resources.errors import BadBase
from ft_resources.hub import Hub, HubFile, HubSnapshot, verify_file

_MAX_TEXT_BYTES = 256 * 1024 * 1024


def lock_folder(folder: Path, where: str, *, template_given: bool) -> BaseLock:
    """The lock of a local folder that is not uploaded yet. Raises BadBase if it cannot serve as a base."""
    inspect_base(folder, where, template_given=template_given)
    names = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    files = {name: FileEntry.of(folder / name) for name in sorted(names)}
    digest = content_digest(files)
    return BaseLock(kind="folder", source=f"folder:sha256:{digest}", revision=digest, digest=digest, files=files)


def lock_hub(hub: Hub, repo: str, revision: str, *, template_given: bool) -> BaseLock:
    """The lock of a hub model at the commit that ``revision`` currently names, without downloading weights.

    Only files that a base may hold are included; pickles and code next to the safetensors weights are ignored. Raises
    BadBase if the model cannot serve as a base, HubUnavailable if the hub cannot be reached.
    """
    where = f"hub:{repo}@{revision}"
    snapshot = hub.snapshot(repo, revision)
    safe = [name for name in sorted(snapshot.files) if is_safe_name(name)]
    check_names(safe, where)
    with tempfile.TemporaryDirectory(prefix="ft-lock-") as scratch:
        folder = Path(scratch)
        for name in safe:
            if not name.endswith(".safetensors"):
                _fetch_text(hub, snapshot, snapshot.files[name], folder / name, where)
        check_texts(folder, where, template_given=template_given)
        shards = weight_files(folder, where)
        missing = [name for name in shards if name not in snapshot.files]
        if missing:
            remedy = "Choose another revision; this one is not whole."
            raise BadBase(f"{INDEX} lists {missing[0]}, which the model does not have", where=where, remedy=remedy)
        taken = [name for name in safe if not name.endswith(".safetensors") or name in shards]
        files = {name: _entry(hub, snapshot, snapshot.files[name], folder / name, where) for name in taken}
    return BaseLock(
        kind="hub", source=f"hub:{repo}", revision=snapshot.commit, digest=content_digest(files), files=files
    )


def _entry(hub: Hub, snapshot: HubSnapshot, file: HubFile, path: Path, where: str) -> FileEntry:
    """Size and sha256. The few files without an LFS sha256 are small and are downloaded now if they were not before."""
    if file.sha256 is not None:
        return FileEntry(size=file.size, sha256=file.sha256)
    if not path.exists():
        _fetch_text(hub, snapshot, file, path, where)
    return FileEntry.of(path)


def _fetch_text(hub: Hub, snapshot: HubSnapshot, file: HubFile, path: Path, where: str) -> None:
    if file.size > _MAX_TEXT_BYTES:
        raise BadBase(f"{file.name} is too large ({file.size} bytes)", where=where, remedy="Choose another model.")
    hub.download(snapshot.repo, snapshot.commit, file.name, path)
    verify_file(path, file, where)
