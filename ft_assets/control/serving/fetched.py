"""Adapters that an engine fetches from the store itself, by their names on servers."""

import threading
from collections import Counter, deque
from pathlib import Path

from ft_assets.control.serving.decided import require_decided
from ft_assets.control.serving.names import find_model, is_adapter
from ft_assets.settings.base_sources import source_of
from ft_resources.artifacts import Address, Artifacts, InputRef
from ft_resources.errors import CorruptArtifact, NotFound
from ft_resources.serving.adapter_folders import AdapterFolders
from ft_resources.serving.errors import BadAdapter
from ft_resources.serving.fleet import ServedModel
from ft_resources.signatures import require_signed


class FetchedAdapters:
    """Copies of adapters to one base, in ``folders``.

    Args:
        base: as ``source_of`` says it.

    A copy stays as long as somebody has it: the engine reads it again whenever it brings the adapter back into memory.
    """

    def __init__(self, artifacts: Artifacts, folders: AdapterFolders, base: str) -> None:
        self._artifacts, self._folders, self._base = artifacts, folders, base
        self._users: Counter[str] = Counter()
        # The garbage collector may call it at any point, so it takes no lock.
        self._given_back: deque[str] = deque()
        self._lock = threading.Lock()

    def take(self, name: str) -> tuple[str, Path]:
        """Content digest and folder of the adapter that ``name`` means; ``give_back`` the digest once it is unused.

        Raises NotFound for a name that means nothing now, or that could mean other bytes tomorrow; BadAdapter for a
        whole model and for another base's adapter; Unsigned; CorruptArtifact; StoreUnavailable.
        """
        line, _, marked = name.partition("@")
        artifact = find_model(self._artifacts, name, tenant=line.partition(".")[0])
        # The line's name, and that of its stage, may mean another adapter after the next promotion.
        if marked != artifact.digest[:16]:
            remedy = f"Request {line}@{artifact.digest[:16]}."
            raise NotFound(f"{name!r} does not identify an adapter", where="model", remedy=remedy)
        if not is_adapter(artifact):
            raise BadAdapter(
                "it is a complete model, and servers load adapters only",
                where=str(artifact.address),
                remedy="Export it, and serve it on its own server (docs/how-to/export.md).",
            )
        base = artifact.manifest.inputs["base"]
        self._require_base(base, name)
        require_signed(self._artifacts.store, artifact)
        model = ServedModel(line=line, address=str(artifact.address), digest=artifact.digest, base=base.digest)
        require_decided(self._artifacts.store, model)
        self._keep(taken=artifact.digest)
        try:
            return artifact.digest, self._folders.folder(artifact.digest, lambda: artifact)
        except BaseException:
            self.give_back(artifact.digest)
            raise

    def give_back(self, digest: str) -> None:
        """One user less; the copy may be evicted from the next ``take`` on."""
        self._given_back.append(digest)

    def _require_base(self, trained_on: InputRef, name: str) -> None:
        base = self._artifacts.get(Address.parse(trained_on.address))
        if base.digest != trained_on.digest:
            raise CorruptArtifact("the base is not the one that the adapter was trained on", where=trained_on.address)
        source = source_of(base.manifest.identity["params"])
        if source != self._base:
            raise BadAdapter(
                f"{name} was trained on {source or trained_on.address}, and this server has {self._base}",
                where="model",
                remedy="Use a server with the adapter's base.",
            )

    def _keep(self, *, taken: str) -> None:
        with self._lock:
            while self._given_back:
                self._users[self._given_back.popleft()] -= 1
            self._users = +self._users
            # Before the new user is counted: an unused copy is verified again.
            self._folders.keep(self._users.keys())
            self._users[taken] += 1
