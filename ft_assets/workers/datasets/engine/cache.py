"""Prepared chunks cached by content, so that a version that changes few rows prepares few chunks again.

Everything in the cache can be rebuilt. Objects under ``<tenant>/cache/`` may be deleted at any time, for example by a
bucket's lifecycle rule. A damaged object counts as missing.
"""

from dataclasses import dataclass

import pyarrow as pa
from blake3 import blake3

from ft_resources.errors import StoreUnavailable
from ft_resources.store import Store
from ft_resources.store_layout import Layout

_CHECKSUM_BYTES = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkCache:
    """A tenant's prepared chunks in the store at ``store_url``; plain values, so that it travels between processes."""

    store_url: str
    tenant: str
    layout: Layout = Layout.BESIDE

    @property
    def compression(self) -> str | None:
        """Compression of the cached batches. On a local disk, compressing costs more than it saves."""
        return None if self._store().root is not None else "lz4"

    def get(self, key: str) -> pa.Buffer | None:
        """The data stored for ``key``, or None if there is no intact object."""
        store, path = self._store(), self._path(key)
        here = store.local_path(path)
        try:
            if here is None:
                stored = pa.py_buffer(store.get(path))
            else:
                # The store replaces whole files, so mapped data stays unchanged.
                with pa.memory_map(str(here)) as file:
                    stored = file.read_buffer()
        except (OSError, StoreUnavailable):
            return None
        checksum, data = stored[:_CHECKSUM_BYTES], stored[_CHECKSUM_BYTES:]
        return data if blake3(data).digest() == checksum.to_pybytes() else None

    def put(self, key: str, data: bytes) -> None:
        """Store ``data`` for ``key``. If the store refuses, only the time saved next time is lost."""
        try:
            self._store().put(self._path(key), b"".join((blake3(data).digest(), data)))
        except StoreUnavailable as error:
            print(f"chunk cache: {error.what}", flush=True)

    def _store(self) -> Store:
        return Store(self.store_url, layout=self.layout)

    def _path(self, key: str) -> str:
        return f"{self.tenant}/cache/chunks/{key[:2]}/{key}"
