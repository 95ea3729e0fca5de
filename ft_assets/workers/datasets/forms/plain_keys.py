"""The keys of ``content_keys`` in plain Python, for the control plane's image, which has no numba.

A hundredth as fast, which is enough for the first rows of an upload, for a sample and for two versions side by side.
"""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from ft_assets.workers.datasets.columns import TURN, TURN_COLUMNS

PROMPT_BYTES = 64
_BLANK = b" \n\t"
_START, _PRIME, _MIX, _ALL = 0xCBF29CE484222325, 0x100000001B3, 0xFF51AFD7ED558CCD, (1 << 64) - 1


def digests(examples: pa.RecordBatch) -> Iterator[bytes]:
    """See ``content_keys.content_keys``."""
    for row in examples.select([*TURN_COLUMNS, "text", "tools"]).to_pylist():
        digest = hashlib.sha256()
        for turns in (row[column] for column in TURN_COLUMNS):
            digest.update(struct.pack("<i", len(turns)))
            for turn in turns:
                for field in TURN:
                    _add(digest, turn[field.name].encode(), trimmed=field.name == "content")
        _add(digest, row["text"].encode(), trimmed=True)
        _add(digest, row["tools"].encode(), trimmed=False)
        yield digest.digest()


def _add(digest: Any, text: bytes, *, trimmed: bool) -> None:
    text = text.strip(_BLANK) if trimmed else text
    digest.update(struct.pack("<i", len(text)) + text)


def prompt_hashes(examples: pa.RecordBatch) -> Iterator[int]:
    """See ``content_keys.prompt_keys``."""
    for row in examples.select(["messages", "text"]).to_pylist():
        state = _START
        for content in _opening(row["messages"]) or [row["text"].encode().strip(_BLANK)]:
            state = _hashed(content, state)
        state = (state ^ (state >> 33)) * _MIX & _ALL
        yield state ^ (state >> 33)


def _opening(turns: Sequence[dict[str, str]]) -> list[bytes]:
    """Contents up to the turn at which users have said ``PROMPT_BYTES``, else up to their last; none without users."""
    said, contents = 0, []
    users = [turn["role"].startswith("u") for turn in turns]
    last = len(users) - users[::-1].index(True) if any(users) else 0
    for turn, user in zip(turns[:last], users, strict=False):
        contents.append(turn["content"].encode().strip(_BLANK))
        said += len(contents[-1]) * user
        if said >= PROMPT_BYTES:
            break
    return contents


def _hashed(text: bytes, state: int) -> int:
    """See ``keys_kernel.hash_piece``."""
    state = (state ^ len(text)) * _PRIME & _ALL
    for (word,) in struct.iter_unpack("<Q", text + bytes(-len(text) % 8)):
        state = (state ^ word) * _PRIME & _ALL
        state ^= state >> 32
    return state
