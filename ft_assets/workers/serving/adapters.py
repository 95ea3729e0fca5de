"""The adapters of one base: served by name, with a few of them in memory."""

import hashlib
from collections import Counter, OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ft_assets.workers.serving.tuned import Tuned
from ft_resources.errors import NotFound, first_line
from ft_resources.serving.errors import BadAdapter, NameTaken, ServerBusy
from ft_resources.serving.finite import require_finite

_CONFIG, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


@dataclass(frozen=True, slots=True)
class Adapter:
    """A served adapter: the files in ``folder``, with their digest."""

    name: str
    folder: Path
    digest: str


class Adapters:
    """Adapters of ``model``, of which at most ``most`` are in memory; the least recently used make room.

    A name stands for the same bytes as long as the process lives, even if it is unloaded: else answers, or keys and
    values, cached by that name would be stale. Names of equal bytes share their memory. Only ``find`` and ``names`` may
    be called outside the engine's thread.
    """

    def __init__(self, model: Any, base: str, most: int) -> None:
        self.model = Tuned(model)
        self._base, self._most = base, most
        self._digests: dict[str, str] = {}
        self._served: dict[str, Adapter] = {}
        self._inside: OrderedDict[str, str] = OrderedDict()
        """Digests in memory, with the model's name for each; the most recently used is last."""
        self._in_flight: Counter[str] = Counter()

    def names(self) -> list[Adapter]:
        """The adapters that are served, oldest first."""
        return list(self._served.values())

    def find(self, name: str) -> Adapter | None:
        """The adapter ``name``; None for the base. Raises NotFound."""
        if name == self._base:
            return None
        found = self._served.get(name)
        if found is None:
            raise NotFound(f"no model {name!r} is served here", where="model", remedy="GET /v1/models lists them.")
        return found

    def add(self, name: str, folder: Path) -> None:
        """Serve the adapter in ``folder`` as ``name``. It is read at once, so that a bad one is refused at once.

        Raises NameTaken, NotFound for a missing folder, BadAdapter, and ServerBusy if all in memory are in use.
        """
        adapter = Adapter(name, folder, _digest(folder))
        if name == self._base or self._digests.get(name, adapter.digest) != adapter.digest:
            raise NameTaken(
                f"{name!r} belongs to other bytes than those in {folder}",
                where="lora_name",
                remedy="Give each adapter a unique name, such as one with its digest.",
            )
        if self._bring_in(adapter) is None:
            raise ServerBusy("all adapters in memory are in use", where="lora_name", remedy="Try again.", retry_s=1)
        self._digests[name], self._served[name] = adapter.digest, adapter

    def remove(self, name: str) -> None:
        """Stop serving ``name``; requests in flight keep it until they end. Raises NotFound."""
        adapter = self.find(name)
        if adapter is None:
            raise BadAdapter(f"{name!r} is the base", where="lora_name", remedy="End the server instead.")
        del self._served[name]
        self._drop_unserved(adapter.digest)

    def take(self, adapter: Adapter) -> str | None:
        """The model's name for ``adapter``, which stays in memory until ``give_back``; None if there is no room now.

        Raises BadAdapter if its folder changed since it was added.
        """
        inside = self._bring_in(adapter)
        if inside is not None:
            self._in_flight[adapter.digest] += 1
        return inside

    def give_back(self, adapter: Adapter) -> None:
        """A request that took ``adapter`` has ended."""
        self._in_flight[adapter.digest] -= 1
        self._drop_unserved(adapter.digest)

    def _bring_in(self, adapter: Adapter) -> str | None:
        if adapter.digest not in self._inside:
            if len(self._inside) >= self._most:
                idle = next((digest for digest in self._inside if not self._in_flight[digest]), None)
                if idle is None:
                    return None
                self._drop(idle)
            if _digest(adapter.folder) != adapter.digest:
                raise BadAdapter(
                    f"the files of {adapter.name!r} have changed since it was loaded",
                    where=str(adapter.folder),
                    remedy="Load them under another name.",
                )
            require_finite(adapter.folder)
            self._inside[adapter.digest] = self.model.add(adapter.folder)
        self._inside.move_to_end(adapter.digest)
        return self._inside[adapter.digest]

    def _drop_unserved(self, digest: str) -> None:
        if not self._in_flight[digest] and all(each.digest != digest for each in self._served.values()):
            self._drop(digest)

    def _drop(self, digest: str) -> None:
        inside = self._inside.pop(digest, None)
        if inside is not None:
            self.model.remove(inside)


def _digest(folder: Path) -> str:
    """SHA-256 of an adapter's settings and weights."""
    if not folder.is_dir():
        raise NotFound("there is no such folder", where=str(folder), remedy="Name a folder of this machine.")
    found = hashlib.sha256()
    for name in (_CONFIG, _WEIGHTS):
        try:
            with (folder / name).open("rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            what = f"{name} cannot be read: {first_line(error)}"
            raise BadAdapter(what, where=str(folder), remedy="Name the folder of an adapter.") from error
    return found.hexdigest()
