"""The small files of a locked base at registration: from the folder, the store or the hub."""

import shutil
from collections.abc import Callable
from pathlib import Path

from ft_assets.workers.base_models.base_lock import BaseLock
from ft_resources.artifacts import Address, Artifacts
from ft_resources.hub import Hub
from ft_resources.store import Store


def fetch_base_file(store: Store, lock: BaseLock, name: str, target: Path, *, hub: Callable[[], Hub]) -> bool:
    """Copy the file ``name`` of a base that is not a folder on this machine to ``target``; False if it has none.

    An adapter that is not a whole model has the files of its own base, except for those that it brings.
    """
    if lock.kind == "hub":
        if name in lock.files:
            hub().download(lock.source.removeprefix("hub:"), lock.revision, name, target)
        return name in lock.files
    address = lock.upload or lock.source.removeprefix("artifact:")
    if name not in lock.files and lock.parent is not None:
        address = lock.parent.address
    held = Artifacts(store).get(Address.parse(address))
    if name in held.manifest.files:
        shutil.copyfile(held.path(name, target.parent / "fetched"), target)
    return name in held.manifest.files
