from pathlib import Path

import numpy as np
import pytest

from ft_assets.packs.format import Layout, Pack, PackWriter
from tests.packs.made import made_spool


def _written(folder: Path, lengths: list[int], order: list[int], edges: list[int], **limit: int) -> Pack:
    layout = Layout(order=np.array(order, np.int64), window_offsets=np.array(edges, np.int64))
    PackWriter(folder / "pack", "train", "chat", 100, **limit).write(made_spool(folder / "spool", lengths), layout)
    return Pack.open(folder / "pack", "train")


def test_a_window_returns_its_documents_one_behind_the_other(tmp_path: Path) -> None:
    pack = _written(tmp_path, [3, 1, 2], [2, 0, 1], [0, 2, 3])
    assert (len(pack), pack.documents, pack.examples, pack.tokens, pack.learned_tokens) == (2, 3, 3, 6, 3)
    window = pack.read([0])
    assert window.input_ids.tolist() == [4, 5, 0, 1, 2]
    assert window.learned.tolist() == [True, False, True, False, True]
    assert window.document_lengths.tolist() == [2, 3]
    assert window.examples.tolist() == [2, 0]
    assert [pack.example_row(index) for index in window.examples] == [3, 1]
    assert pack.read([1]).input_ids.tolist() == [3]
    assert pack.window_lengths.tolist() == [5, 1]
    with pytest.raises(IndexError):
        pack.read([2])


def test_a_split_without_rows_is_an_empty_pack(tmp_path: Path) -> None:
    pack = _written(tmp_path, [], [], [0])
    assert (len(pack), pack.tokens, pack.learned_tokens, pack.documents) == (0, 0, 0, 0)
    assert len(pack.example_ids) == len(pack.window_lengths) == len(pack.read([]).input_ids) == 0
