"""Prepared chunks by content, so that a version that changes few rows prepares few chunks again.

The cache holds nothing that cannot be made again: objects below ``<tenant>/cache/`` may be deleted at any time, for
instance by a bucket's lifecycle rule. An object that is damaged counts as missing.
"""

import hashlib
from dataclasses import dataclass

from ft_resources.errors import StoreUnavailable
from ft_resources.store import Store

_SHA256_BYTES = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkCache:
    """A tenant's prepared chunks in the store at ``store_url``; plain values, so that it travels between processes."""

    store_url: str
    tenant: str

    def get(self, key: str) -> bytes | None:
        """What was put for ``key``, or None where nothing whole is there."""
        try:
            stored = Store(self.store_url).get(self._path(key))
        except (FileNotFoundError, StoreUnavailable):
            return None
        checksum, data = stored[:_SHA256_BYTES], stored[_SHA256_BYTES:]
        return data if hashlib.sha256(data).digest() == checksum else None

    def put(self, key: str, data: bytes) -> None:
        """Keep ``data`` for ``key``; a store that refuses costs only the time saved next time."""
        try:
            Store(self.store_url).put(self._path(key), hashlib.sha256(data).digest() + data)
        except StoreUnavailable as error:
            print(f"chunk cache: {error.what}", flush=True)

    def _path(self, key: str) -> str:
        return f"{self.tenant}/cache/chunks/{key[:2]}/{key}"
