"""Chunks: nothing lost, ends decided by content, and bounded whatever the lines are."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.workers.datasets.intake.chunking import Chunk, chunks
from ft_assets.workers.datasets.intake.spool import Spool

TARGET = 4096


def spool_of(path: Path, data: bytes, start: int = 0) -> Spool:
    path.write_bytes(data)
    return Spool(name="data.jsonl", role="upload", path=path, start=start, source_sha256="", source_size=0)


def cut(path: Path, data: bytes, start: int = 0) -> list[Chunk]:
    return list(chunks(spool_of(path, data, start), TARGET, row_bytes=4 * TARGET))


def text_lines(count: int, seed: int = 0) -> list[bytes]:
    words = random.Random(seed)
    return [
        b'{"text": "%s", "source": "the same in all"}\n' % words.randbytes(words.randint(5, 60)).hex().encode()
        for _ in range(count)
    ]


@given(
    st.lists(st.sampled_from([0, 1, 7, 100, 3000, 9000, 20_000]), max_size=40), st.booleans(), st.sampled_from([0, 3])
)
def test_lines_and_their_numbers_survive_and_long_ones_leave_a_blank(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], ended: bool, start: int
) -> None:
    lines = [bytes([97 + index % 26]) * length + b"\n" for index, length in enumerate(lengths)]
    data = b"".join(lines)
    data = data if ended else data.removesuffix(b"\n")
    found = cut(tmp_path_factory.mktemp("chunks") / "data", b"\xef\xbb\xbf"[:start] + data, start)
    long = {index + 1 for index, length in enumerate(lengths) if length >= 4 * TARGET}
    wanted = [b"\n" if index + 1 in long else line for index, line in enumerate(data.splitlines(keepends=True))]
    assert b"".join(chunk.lines for chunk in found) == b"".join(wanted)
    assert {chunk.first_row + row - 1 for chunk in found for row in chunk.too_long} == long
    row = 1
    for chunk in found:
        assert chunk.first_row == row
        assert len(chunk.lines) <= 4 * TARGET
        row += chunk.lines.count(b"\n")
    assert all(chunk.ended for chunk in found[:-1])


def test_chunks_have_the_size_that_was_asked_for(tmp_path: Path) -> None:
    sizes = [len(chunk.lines) for chunk in cut(tmp_path / "data", b"".join(text_lines(20_000)))]
    assert all(TARGET // 2 <= size <= 2 * TARGET for size in sizes[:-1])
    assert 0.8 * TARGET < sum(sizes) / len(sizes) < 1.25 * TARGET


@pytest.mark.parametrize("where", [0, 1, 5000, 9999])
def test_an_inserted_row_changes_only_the_chunks_around_it(tmp_path: Path, where: int) -> None:
    lines = text_lines(10_000)
    before = {chunk.lines for chunk in cut(tmp_path / "data", b"".join(lines))}
    changed = [*lines[:where], b'{"text": "one more"}\n', *lines[where:]]
    after = [chunk.lines for chunk in cut(tmp_path / "data", b"".join(changed))]
    assert len(after) > 150
    assert sum(chunk not in before for chunk in after) <= 5


def test_rows_that_hardly_differ_still_make_ends(tmp_path: Path) -> None:
    """A common prompt in every row fills most of it, and the rest of a row is its number."""
    prompt = b"p" * 300
    lines = [b'{"prompt": "%s %06d", "completion": "yes"}\n' % (prompt, number) for number in range(8000)]
    sizes = [len(chunk.lines) for chunk in cut(tmp_path / "data", b"".join(lines))]
    assert sum(size < 2 * TARGET - 1000 for size in sizes) > len(sizes) // 3


def test_a_row_may_not_be_shorter_than_a_chunk_can_be(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="too long rows would pass"):
        list(chunks(spool_of(tmp_path / "data", b"x"), TARGET, row_bytes=TARGET))
