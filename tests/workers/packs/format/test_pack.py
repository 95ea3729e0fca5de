"""What was spooled is read back, token by token, whatever the batches, the layout and the size of shards."""

import json
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ft_assets.workers.packs.format import Layout, Pack, PackWriter, Spool
from ft_assets.workers.packs.format import writer as writing
from ft_assets.workers.packs.format.layout import ARRAYS, array_name
from ft_assets.workers.packs.format.spool import Batch
from ft_assets.workers.packs.packing import pack as best_fit
from tests.workers.packs.made import made_batch, made_spool

MAX_LENGTH = 12


def _layout(order: list[int], edges: list[int]) -> Layout:
    return Layout(order=np.array(order, np.int64), window_offsets=np.array(edges, np.int64))


def _written(folder: Path, lengths: list[int], order: list[int], edges: list[int]) -> Pack:
    spool = made_spool(folder / "spool", lengths)
    PackWriter(folder / "pack", "train", "chat", 100).write(spool, _layout(order, edges))
    return Pack.open(folder / "pack", "train")


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _part(batch: Batch, first: int, last: int) -> Batch:
    """The rows ``first`` to ``last - 1`` of a batch as a batch of their own."""
    start, end = np.searchsorted(batch.example, [first, last])
    tokens = slice(batch.offsets[start], batch.offsets[end])
    return Batch(
        input_ids=batch.input_ids[tokens],
        learned=batch.learned[tokens],
        offsets=batch.offsets[start : end + 1] - batch.offsets[start],
        example=batch.example[start:end] - first,
        controls=batch.controls[start:end],
        shortened=batch.shortened[start:end],
        ids=batch.ids[first:last],
        rows=batch.rows[first:last],
    )


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Rows of none, one or several documents each; every token has another id."""
    documents = draw(st.lists(st.lists(st.integers(1, MAX_LENGTH), max_size=3), max_size=30))
    return made_batch(
        [length for row in documents for length in row],
        example=[number for number, row in enumerate(documents) for _ in row],
        rows=[3 * number + 1 for number in range(len(documents))],
    )


def _spooled(folder: Path, batch: Batch, cuts: list[int]) -> Spool:
    edges = [0, *sorted(cut % (len(batch.rows) + 1) for cut in cuts), len(batch.rows)]
    with Spool(folder).writing() as spool:
        for first, last in pairwise(edges):
            spool.append(_part(batch, first, last))
    return spool


@pytest.mark.statistics
@given(batch=batches(), cuts=st.lists(st.integers(0, 99), max_size=4), limit=st.integers(1, 80), seed=st.integers(0, 9))
def test_every_token_is_there_once_in_its_document_whatever_batches_and_shards(
    batch: Batch, cuts: list[int], limit: int, seed: int
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        spool = _spooled(folder / "spool", batch, cuts)
        layout = best_fit(spool.lengths, max_length=MAX_LENGTH, seed=seed)
        PackWriter(folder / "pack", "train", "chat", MAX_LENGTH, shard_tokens=limit).write(spool, layout)
        pack = Pack.open(folder / "pack", "train")
        row = pack.read(range(len(pack)))
        assert sorted(row.input_ids.tolist()) == list(range(pack.index.tokens)) == list(range(len(batch.input_ids)))
        assert np.array_equal(row.learned, batch.learned[row.input_ids])
        # Documents are whole: the tokens of each count up, from where one of the batch starts to where it ends.
        ends = np.cumsum(row.document_lengths)
        starts = row.input_ids[ends - row.document_lengths] if len(ends) else np.empty(0, np.int64)
        documents = np.searchsorted(batch.offsets, starts)
        assert np.array_equal(batch.offsets[documents], starts)
        assert np.array_equal(np.diff(batch.offsets)[documents], row.document_lengths)
        expected = [start + np.arange(length) for start, length in zip(starts, row.document_lengths, strict=True)]
        assert row.input_ids.tolist() == np.concatenate([np.empty(0, int), *expected]).tolist()
        # Each belongs to the row it came from, and is the piece of it that it was.
        rows = [pack.example_row(example) for example in row.examples]
        assert rows == batch.rows[batch.example[documents]].tolist()
        assert [pack.example_id(example) for example in row.examples] == [
            bytes(batch.ids[number]).hex() for number in batch.example[documents]
        ]
        first_of_row = np.searchsorted(batch.example, batch.example[documents])
        assert row.pieces.tolist() == (documents - first_of_row).tolist()
        # No window overflows, and no shard does that holds more than one.
        assert pack.window_lengths.max(initial=0) <= MAX_LENGTH
        assert all(shard.tokens <= limit or shard.windows == 1 for shard in pack.index.shards)
        assert pack.documents_by_example().tolist() == np.bincount(row.examples, minlength=pack.index.examples).tolist()
        assert pack.index.learned_tokens == row.learned.sum()


@settings(max_examples=10)
@given(batch=batches(), cuts=st.lists(st.integers(0, 99), max_size=4), limits=st.tuples(*[st.integers(1, 80)] * 2))
def test_bytes_do_not_depend_on_batches_nor_contents_on_shards(
    batch: Batch, cuts: list[int], limits: tuple[int, int]
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        packs = []
        for number, (cut, limit) in enumerate(zip((cuts, []), limits, strict=True)):
            spool = _spooled(folder / f"spool{number}", batch, cut)
            layout = best_fit(spool.lengths, max_length=MAX_LENGTH, seed=1)
            for each in {limit, limits[0]}:
                place = folder / f"{number}-{each}"
                PackWriter(place, "train", "chat", MAX_LENGTH, shard_tokens=each).write(spool, layout)
            packs.append(Pack.open(folder / f"{number}-{limit}", "train"))
        assert _files(folder / f"0-{limits[0]}") == _files(folder / f"1-{limits[0]}")
        one, other = packs
        assert len(one) == len(other)
        assert one.window_lengths.tolist() == other.window_lengths.tolist()
        for window in range(len(one)):
            mine, theirs = one.read([window]), other.read([window])
            assert all(np.array_equal(getattr(mine, name), getattr(theirs, name)) for name in mine.__slots__)


@settings(max_examples=10)
@given(world=st.integers(1, 5), micro_batch=st.integers(1, 9), seed=st.integers(0, 5))
def test_the_ranks_of_a_training_share_the_windows_of_a_micro_batch_among_them(
    world: int, micro_batch: int, seed: int
) -> None:
    with TemporaryDirectory() as name:
        lengths = np.random.default_rng(seed).integers(1, MAX_LENGTH, 40)
        spool = made_spool(Path(name) / "spool", lengths)
        layout = best_fit(spool.lengths, max_length=MAX_LENGTH, seed=seed)
        PackWriter(Path(name), "train", "chat", MAX_LENGTH, shard_tokens=30).write(spool, layout)
        pack = Pack.open(Path(name), "train")
        order = np.random.default_rng(seed).permutation(len(pack))
        read = [
            pack.read(order[start : start + micro_batch][rank::world]).input_ids
            for start in range(0, len(order), micro_batch)
            for rank in range(world)
        ]
        assert sorted(np.concatenate(read).tolist()) == list(range(pack.index.tokens))


def test_a_window_returns_its_documents_one_behind_the_other(tmp_path: Path) -> None:
    pack = _written(tmp_path, [3, 1, 2], [2, 0, 1], [0, 2, 3])
    assert (len(pack), pack.index.documents, pack.index.examples, pack.index.tokens, pack.index.learned_tokens) == (
        2,
        3,
        3,
        6,
        3,
    )
    window = pack.read([0])
    assert window.input_ids.tolist() == [4, 5, 0, 1, 2]
    assert window.learned.tolist() == [True, False, True, False, True]
    assert window.document_lengths.tolist() == [2, 3]
    assert window.examples.tolist() == [2, 0]
    assert [pack.example_row(index) for index in window.examples] == [3, 1]
    assert pack.read([1, 0]).input_ids.tolist() == [3, 4, 5, 0, 1, 2]
    assert pack.window_lengths.tolist() == [5, 1]
    for outside in (2, -1):
        with pytest.raises(IndexError):
            pack.read([outside])


def test_neighbouring_windows_are_views_of_the_file_and_read_only(tmp_path: Path) -> None:
    pack = _written(tmp_path, [3, 1, 2, 5], [2, 0, 1, 3], [0, 1, 2, 3, 4])
    (shard,) = pack.shards()
    for windows in ([2], [1, 2, 3]):
        window = pack.read(windows)
        assert np.shares_memory(window.input_ids, shard.input_ids)
        assert np.shares_memory(window.learned, shard.learned)
        with pytest.raises(ValueError, match="read-only"):
            window.input_ids[0] = 1
    assert not np.shares_memory(pack.read([3, 1]).input_ids, shard.input_ids)


def test_a_split_without_rows_is_an_empty_pack(tmp_path: Path) -> None:
    pack = _written(tmp_path, [], [], [0])
    assert (len(pack), pack.index.tokens, pack.index.learned_tokens, pack.index.documents) == (0, 0, 0, 0)
    assert len(pack.example_ids) == len(pack.window_lengths) == len(pack.read([]).input_ids) == 0


def test_files_are_those_that_numpy_writes(tmp_path: Path) -> None:
    _written(tmp_path, [3, 1, 2], [2, 0, 1], [0, 2, 3])
    for name in ARRAYS:
        path = tmp_path / "pack" / array_name("train", 0, name)
        np.save(tmp_path / "again.npy", np.load(path))
        assert path.read_bytes() == (tmp_path / "again.npy").read_bytes(), name


def test_what_does_not_fit_into_memory_is_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = list(range(1, 40))
    whole = _written(tmp_path / "whole", lengths, list(range(39))[::-1], list(range(40)))
    monkeypatch.setattr(writing, "_CHUNK_TOKENS", 7)
    pieces = []
    real = writing._sources
    monkeypatch.setattr(writing, "_sources", lambda *given: (pieces.append(len(p)) or p for p in real(*given)))
    _written(tmp_path / "pieces", lengths, list(range(39))[::-1], list(range(40)))
    assert max(pieces) == 39
    assert len(pieces) > 30
    assert _files(tmp_path / "whole" / "pack") == _files(tmp_path / "pieces" / "pack")
    assert whole.index.tokens == sum(pieces)


@pytest.mark.parametrize(
    ("order", "edges"), [([0, 1], [0, 2]), ([0, 1, 1], [0, 3]), ([0, 1, 2], [0, 2]), ([0, 1, 2], [0, 0, 3])]
)
def test_a_layout_that_loses_or_repeats_a_document_is_refused(
    tmp_path: Path, order: list[int], edges: list[int]
) -> None:
    with pytest.raises(ValueError, match="the layout"):
        _written(tmp_path, [3, 1, 2], order, edges)


def test_a_window_that_overflows_is_refused_but_a_pair_is_two_documents(tmp_path: Path) -> None:
    spool = made_spool(tmp_path / "spool", [60, 60], example=[0, 0])
    layout = _layout([0, 1], [0, 2])
    with pytest.raises(ValueError, match="120 tokens"):
        PackWriter(tmp_path, "train", "chat", 100).write(spool, layout)
    PackWriter(tmp_path, "train", "preference", 100).write(spool, layout)
    assert Pack.open(tmp_path, "train").read([0]).pieces.tolist() == [0, 1]
    with pytest.raises(ValueError, match="60 tokens"):
        PackWriter(tmp_path, "train", "preference", 50).write(spool, layout)


def test_a_pack_whose_writer_died_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = made_spool(tmp_path / "spool", [3, 1, 2, 4])
    layout = _layout([3, 2, 1, 0], [0, 1, 2, 3, 4])
    real, writes = np.save, 0

    def dying(*arguments: object, **named: object) -> None:
        nonlocal writes
        writes += 1
        if writes == dies_at:
            raise KeyboardInterrupt
        real(*arguments, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(writing.np, "save", dying)
    # Two shards of four arrays each that are saved whole, and two arrays of examples.
    for dies_at in range(1, 11):
        writes, folder = 0, tmp_path / str(dies_at)
        with pytest.raises(KeyboardInterrupt):
            PackWriter(folder, "train", "chat", 100, shard_tokens=6).write(spool, layout)
        assert list(folder.rglob("*.npy"))
        with pytest.raises(FileNotFoundError):
            Pack.open(folder, "train")


class _Asked:
    """A pack's folder that notes which files are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.names = folder, []  # type: Path, list[str]

    def path(self, name: str) -> Path:
        self.names.append(name)
        return self.folder / name


def test_opening_ten_million_windows_reads_one_small_file(tmp_path: Path) -> None:
    per_shard, length = 2**14, 2**12
    shards = 10_000_000 // per_shard + 1
    size = {"windows": per_shard, "documents": per_shard, "tokens": per_shard * length}
    index = {
        "form": "chat",
        "max_length": length,
        "examples": shards * per_shard,
        "shards": [size] * shards,
        "learned_tokens": 0,
        **{name: shards * count for name, count in size.items()},
    }
    (tmp_path / "train").mkdir()
    (tmp_path / "train/index.json").write_text(json.dumps(index))
    asked = _Asked(tmp_path)
    pack = Pack.open(asked, "train")
    assert (len(pack), pack.index.tokens) == (shards * per_shard, shards * per_shard * length)
    assert len(pack) > 10_000_000
    assert asked.names == ["train/index.json"]
    # Of all shards only number 400 exists; a file of zeros takes no space.
    offsets = np.arange(per_shard + 1)
    arrays = {
        "document_offsets": offsets * length,
        "window_offsets": offsets,
        "examples": offsets[:-1],
        "pieces": np.zeros(per_shard, np.int32),
    }
    for name, array in arrays.items():
        np.save(tmp_path / array_name("train", 400, name), array)
    for name in ("input_ids", "learned"):
        np.lib.format.open_memmap(
            tmp_path / array_name("train", 400, name), "w+", ARRAYS[name], (per_shard * length,)
        ).flush()
    window = pack.read([400 * per_shard + 7])
    assert (len(window.input_ids), window.examples.tolist()) == (length, [7])
    assert sorted(asked.names[1:]) == sorted(array_name("train", 400, name) for name in ARRAYS)
    pack.read([400 * per_shard + 8])
    assert len(asked.names) == 7
