"""Exact duplicates: conversations whose texts differ in nothing that a reader would see."""

import hashlib
import unicodedata
from collections.abc import Sequence

from ft_assets.datasets.rows import Message
from ft_resources.canonical import canonical_json


def content_key(messages: Sequence[Message]) -> bytes:
    """sha256 (32 bytes) of the conversation with Unicode composed (NFC), line ends as ``\\n`` and outer space cut.

    Only the key is normalised; the texts that are kept stay as they were uploaded.
    """
    return hashlib.sha256(
        canonical_json([[message["role"], _normalized(message["content"])] for message in messages])
    ).digest()


def _normalized(text: str) -> str:
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n")).strip()


class FirstRows:
    """Remembers where each conversation was first seen: the first row is kept, later ones are duplicates of it."""

    def __init__(self) -> None:
        self._rows: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def first(self, key: bytes, row: int) -> int:
        """The row that ``key`` was first seen at, which is ``row`` itself for a new one."""
        return self._rows.setdefault(key, row)
