from pathlib import Path

import numpy as np
import pytest

from ft_assets.packs.format import IGNORED, Documents, Layout, Pack, write_split


def _documents(lengths: list[int]) -> Documents:
    ids = np.arange(sum(lengths), dtype=np.int32)
    return Documents(
        input_ids=ids,
        labels=np.where(ids % 2 == 0, ids, IGNORED).astype(np.int32),
        offsets=np.cumsum([0, *lengths]).astype(np.int64),
        example_ids=[f"id{number}" for number in range(len(lengths))],
    )


def test_a_window_returns_its_documents_one_behind_the_other(tmp_path: Path) -> None:
    write_split(
        tmp_path,
        "train",
        _documents([3, 1, 2]),
        Layout(order=np.array([2, 0, 1]), window_offsets=np.array([0, 2, 3])),
    )
    pack = Pack.open(tmp_path, "train")
    assert (len(pack), pack.documents, pack.tokens, pack.learned_tokens) == (2, 3, 6, 3)
    window = pack.window(0)
    assert window.input_ids.tolist() == [4, 5, 0, 1, 2]
    assert window.labels.tolist() == [4, -100, 0, -100, 2]
    assert window.document_lengths.tolist() == [2, 3]
    assert window.example_ids == ["id2", "id0"]
    assert pack.window(1).input_ids.tolist() == [3]
    assert pack.window_lengths.tolist() == [5, 1]
    with pytest.raises(IndexError):
        pack.window(2)


def test_an_opened_pack_is_memory_mapped_and_read_only(tmp_path: Path) -> None:
    write_split(tmp_path, "train", _documents([2]), Layout(order=np.array([0]), window_offsets=np.array([0, 1])))
    window = Pack.open(tmp_path, "train").window(0)
    assert isinstance(window.input_ids, np.memmap)
    assert window.input_ids.dtype == window.labels.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        window.input_ids[0] = 1


def test_a_split_without_rows_is_an_empty_pack(tmp_path: Path) -> None:
    write_split(
        tmp_path,
        "validation",
        _documents([]),
        Layout(order=np.empty(0, np.int64), window_offsets=np.zeros(1, np.int64)),
    )
    pack = Pack.open(tmp_path, "validation")
    assert (len(pack), pack.tokens, pack.learned_tokens, pack.example_ids) == (0, 0, 0, [])
