"""What makes two examples the same, and two prompts the same; and all words of an example as one text."""

import hashlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

TURNS = ("messages", "chosen", "rejected")
PROMPT_BYTES = 64


def content_keys(examples: pa.RecordBatch) -> pa.FixedSizeBinaryArray:
    """sha256 of everything in each example that is learned from; outer white space of the turns' contents cut."""
    keys = [hashlib.sha256(b"".join(_content(example))).digest() for example in examples.to_pylist()]
    return pa.array(keys, pa.binary(32))


def _content(example: dict[str, Any]) -> Iterator[bytes]:
    for name in TURNS:
        yield len(example[name]).to_bytes(8, "little")
        for turn in example[name]:
            for field, value in turn.items():
                data = value.encode()
                data = data.strip(b" \t\n") if field == "content" else data
                yield len(data).to_bytes(8, "little")
                yield data
    for value in (example["text"].encode().strip(b" \t\n"), example["tools"].encode()):
        yield len(value).to_bytes(8, "little")
        yield value


def prompt_keys(examples: pa.RecordBatch) -> pa.UInt64Array:
    """A hash of how each example begins: of its turns up to the user's turn by which users have said 64 bytes.

    Conversations that grow turn by turn over several rows so have one key; those that share only a greeting do not.
    Where users say less than that, it is all turns up to their last; for plain text, the text.
    """
    keys = []
    for example in examples.to_pylist():
        data = b"".join(_prompt(example))
        keys.append(int.from_bytes(hashlib.sha256(data).digest()[:8], "little"))
    return pa.array(keys, pa.uint64())


def _prompt(example: dict[str, Any]) -> Iterator[bytes]:
    users = [place for place, turn in enumerate(example["messages"]) if turn["role"] == "user"]
    said = 0
    for turn in example["messages"][: users[-1] + 1 if users else 0]:
        data = turn["content"].encode().strip(b" \t\n")
        yield len(data).to_bytes(8, "little") + data
        said += len(data) * (turn["role"] == "user")
        if said >= PROMPT_BYTES:
            return
    yield example["text"].encode().strip(b" \t\n")


def flat_texts(examples: pa.RecordBatch) -> pa.StringArray:
    """All words of each example, its texts joined by line feeds."""
    texts = []
    for example in examples.to_pylist():
        parts = [turn[field] for name in TURNS for turn in example[name] for field in ("content", "tool_calls")]
        texts.append("\n".join(part for part in [*parts, example["text"]] if part))
    return pa.array(texts, pa.string())
