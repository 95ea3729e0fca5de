"""A row whose tokens several ranks share has the losses and gradients of a whole one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ft_assets.workers.packs.format import Pack
from ft_assets.workers.packs.isolation.attention import BrokenIsolation, MissingBoundaries
from ft_assets.workers.packs.isolation.batches import MicroBatch, micro_batch
from ft_assets.workers.packs.isolation.context import ContextGroup, Slice
from ft_assets.workers.packs.isolation.guard import guard
from ft_resources.errors import BadRecipe
from tests.workers.packs.isolation.test_attention import model_of
from tests.workers.training.conftest import write_pack
from tests.workers.training.families import FAMILIES

pytestmark = pytest.mark.training


def group(place: int, size: int = 2) -> ContextGroup:
    return ContextGroup(size=size, place=place, handle=None)


def test_in_each_packed_family_ranks_that_share_a_row_have_its_losses_and_gradients(tmp_path: Path) -> None:
    write_pack(tmp_path / "pack", "train", 40)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    subprocess.run([*command, "-m", "tests.workers.packs.isolation.context_rank", str(tmp_path)], check=True)
    found = json.loads((tmp_path / "found.json").read_text())
    assert found.keys() == {kind for kind, family in FAMILIES.items() if family.mode == "packed"}
    assert {kind: each for kind, each in found.items() if each["apart"] > 1e-5} == {}
    # Tokens of one document on both ranks, or the exchange would not matter.
    assert int(micro_batch(Pack.open(tmp_path / "pack", "train"), [0, 1]).slice_for(group(1)).position_ids[0, 0]) > 0
    assert all(0.4 < each["kept"] < 0.6 for each in found.values())
    assert all(each["compared"] == 3 and each["passed"] for each in found.values())


def test_the_slices_of_a_row_are_its_tokens_with_the_documents_and_weights_that_they_have(tmp_path: Path) -> None:
    pack = write_pack(tmp_path, "train", 12, weights=[1.0 + number for number in range(12)])
    row = micro_batch(pack, [0, 1])
    for size in (2, 3, 4, row.tokens - 1, row.tokens + 3):
        slices = [row.slice_for(group(place, size)) for place in range(size)]
        assert len({each.tokens for each in slices}) == 1
        for name in ("input_ids", "position_ids"):
            together = torch.cat([getattr(each, name) for each in slices], dim=1)
            assert torch.equal(together[:, : row.tokens], getattr(row, name))
        assert torch.equal(torch.cat([each.targets for each in slices]), row.targets)
        weights = torch.cat([each.weighed(torch.ones(each.learned)) for each in slices])
        assert torch.equal(weights, row.weighed(torch.ones(row.learned)))
        for each in slices:
            assert int(each.boundaries[0]) == 0
            assert int(each.boundaries[-1]) == each.tokens
            assert len(each.pieces) == each.documents


def test_positions_of_another_slice_are_refused(tmp_path: Path) -> None:
    model = model_of("llama")
    guard(model)
    batch = micro_batch(write_pack(tmp_path, "train", 12), [0])
    mine, other = (batch.slice_for(group(place)) for place in (0, 1))
    with pytest.raises(MissingBoundaries, match="positions do not start again"):
        forward(model, mine, other.part)


def test_a_mask_beside_a_slice_is_refused(tmp_path: Path) -> None:
    batch = micro_batch(write_pack(tmp_path, "train", 12), [0]).slice_for(group(0))
    with pytest.raises(BrokenIsolation, match="have a mask"):
        forward(model_of("llama"), batch, batch.part, attention_mask=torch.ones(1, 1, batch.tokens, batch.tokens))


def forward(model: object, batch: MicroBatch, part: Slice | None, **inputs: torch.Tensor) -> None:
    assert part is not None
    places = {"position_ids": batch.position_ids, "cu_seq_lens_q": part.boundaries, "row_slice": part}
    model(input_ids=batch.input_ids, use_cache=False, **places, **inputs)  # type: ignore[operator]


def test_heads_that_the_ranks_cannot_divide_are_refused_with_the_numbers() -> None:
    part = Slice(group=group(0, 3), boundaries=torch.tensor([0, 6], dtype=torch.int32))
    query, key = torch.zeros(1, 12, 2, 8), torch.zeros(1, 4, 2, 8)
    with pytest.raises(BadRecipe, match="4 key/value heads cannot be divided evenly among 3 ranks"):
        part.by_heads(query, key, key)
