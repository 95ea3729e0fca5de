"""Generated rows for the benchmark of curation, with what curation should find planted in them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_BLOCK = 50_000
_WORDS, _ITEMS, _ITEM_WORDS = 30_000, 17_000, 40
_ASKED, _ANSWERED = 28, 48


@dataclass(frozen=True, kw_only=True, slots=True)
class Planted:
    """How many rows were planted: each is like no row but the one that it was made from."""

    exact: int
    near: int
    contaminated: int
    personal: int


def suite_items() -> pa.Array:
    """Test items of 40 words."""
    generator = np.random.default_rng(1)
    return _texts(generator, _vocabulary(), _ITEMS, _ITEM_WORDS)


def write_rows(path: Path, rows: int, *, seed: int = 2, more: bool = False) -> Planted:
    """Write ``rows`` chats of about 500 characters as JSON lines; ``more`` puts one in a hundred more between them.

    Of 100 rows two repeat the one before them and two differ from it in a word; of 1,000 two hold a whole test item
    as their answer and five an e-mail address and a phone number. The first ``rows`` are the same with ``more``.
    """
    vocabulary, items = _vocabulary(), suite_items()
    planted = np.zeros(4, np.int64)
    with path.open("wb") as file:
        for number, start in enumerate(range(0, rows, _BLOCK)):
            lines, counts = _block(vocabulary, items, min(_BLOCK, rows - start), (seed, number))
            planted += counts
            file.write(lines)
            if more:
                lines, counts = _block(vocabulary, items, min(_BLOCK, rows - start) // 100, (seed, number, 1))
                planted += counts
                file.write(lines)
    exact, near, contaminated, personal = planted.tolist()
    return Planted(exact=exact, near=near, contaminated=contaminated, personal=personal)


def _vocabulary() -> pa.Array:
    generator = np.random.default_rng(0)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)
    words = (letters[generator.integers(0, 26, size)].tobytes().decode() for size in _sizes(generator))
    return pa.array(words, pa.string())


def _sizes(generator: np.random.Generator) -> Iterator[int]:
    yield from generator.integers(2, 10, _WORDS).tolist()


def _texts(generator: np.random.Generator, vocabulary: pa.Array, count: int, words: int) -> pa.Array:
    chosen = vocabulary.take(pa.array(generator.integers(0, len(vocabulary), count * words)))
    offsets = pa.array(np.arange(0, count * words + 1, words, dtype=np.int32))
    return pc.binary_join(pa.ListArray.from_arrays(offsets, chosen), " ")


def _block(vocabulary: pa.Array, items: pa.Array, rows: int, seed: tuple[int, ...]) -> tuple[bytes, np.ndarray]:
    generator = np.random.default_rng(seed)
    at = np.arange(rows)
    asked = _texts(generator, vocabulary, rows, _ASKED)
    answered = _texts(generator, vocabulary, rows, _ANSWERED)
    contaminated = at % 500 == 7
    answered = pc.if_else(contaminated, items.take(pa.array(generator.integers(0, len(items), rows))), answered)
    contaminated_asks = _texts(generator, vocabulary, rows, 10)
    asked = pc.if_else(contaminated, contaminated_asks, asked)
    personal = at % 200 == 9
    address = pc.binary_join_element_wise(
        " Write to user", pa.array(at).cast(pa.string()), "@example.com or call +1 415 555 0132.", ""
    )
    answered = pc.binary_join_element_wise(answered, pc.if_else(personal, address, "."), "")
    exact, near = at % 50 == 21, at % 50 == 31
    source = pa.array(at - (exact | near))
    asked, answered = asked.take(source), answered.take(source)
    answered = pc.binary_join_element_wise(answered, pc.if_else(near, " more", ""), "")
    head, middle = '{"messages": [{"role": "user", "content": "', '"}, {"role": "assistant", "content": "'
    lines = pc.binary_join_element_wise(head, asked, middle, answered, '"}]}\n', "")
    counts = np.array([np.count_nonzero(kind) for kind in (exact, near, contaminated, personal)])
    return b"".join(memoryview(line.as_buffer()) for line in pc.binary_join(_whole(lines), "")), counts


def _whole(lines: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
