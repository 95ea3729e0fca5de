"""A row whose tokens several ranks share has the losses and gradients of a whole one."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import masking_utils

from ft_assets.workers.packs.isolation import context
from ft_assets.workers.packs.isolation.attention import ATTENTION, BrokenIsolation, MissingBoundaries, register
from ft_assets.workers.packs.isolation.batches import MicroBatch, micro_batch
from ft_assets.workers.packs.isolation.context import ContextGroup, Slice
from ft_assets.workers.packs.isolation.forward import token_losses
from ft_assets.workers.packs.isolation.guard import guard
from ft_assets.workers.packs.isolation.leak_check import compare
from ft_resources.errors import BadRecipe
from tests.workers.packs.corners import corners
from tests.workers.packs.isolation.test_attention import model_of
from tests.workers.training.conftest import write_pack
from tests.workers.training.families import FAMILIES

# What the attention of each does that the others' does not; `make test-long` tries all packed families.
CORNERS = {
    "llama": "two query heads to a key head",
    "gemma3_text": "sliding windows",
    "gemma2": "a softcap",
    "gpt_oss": "sinks, and experts",
    "deepseek_v3": "keys and values of other sizes, and experts",
    "phi3": "queries, keys and values of one matrix",
    "gpt2": "learned positions",
    "qwen2_vl": "positions of three axes",
    "mllama": "layers that look at pictures",
}
PACKED = [kind for kind, family in FAMILIES.items() if family.mode == "packed"]


def group(place: int, size: int = 2) -> ContextGroup:
    return ContextGroup(size=size, place=place, handle=place)


class Threads:
    """``torch.distributed`` among two ranks that are threads; their groups' handles are their places."""

    def __init__(self) -> None:
        self._meeting, self._given = threading.Barrier(2), [torch.empty(0)] * 2

    def all_to_all_single(self, received: torch.Tensor, sent: torch.Tensor, group: int) -> None:
        received.copy_(torch.cat([each.chunk(2)[group] for each in self._exchange(sent, group)]))

    def all_reduce(self, value: torch.Tensor, group: int) -> None:
        value.copy_(torch.stack(self._exchange(value.clone(), group)).sum(0))

    def _exchange(self, tensor: torch.Tensor, place: int) -> list[torch.Tensor]:
        self._given[place] = tensor
        self._meeting.wait()
        given = list(self._given)
        self._meeting.wait()
        return given

    def run(self, rank: Callable[[ContextGroup], float]) -> list[float]:
        """The results of ``rank`` in both threads."""

        def guarded(place: int) -> float:
            try:
                return rank(group(place))
            except BaseException:
                self._meeting.abort()
                raise

        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(guarded, range(2)))


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Threads:
    made = Threads()
    monkeypatch.setattr(context, "dist", made)
    # A forward pass replaces it for as long as it takes, and of two at once the last would leave the other's behind.
    looks = "find_packed_sequence_indices"
    monkeypatch.setattr(masking_utils, looks, getattr(masking_utils, looks))
    return made


@pytest.mark.parametrize("kind", corners(PACKED, CORNERS))
def test_in_each_packed_family_ranks_that_share_a_row_have_its_losses_and_gradients(
    kind: str, tmp_path: Path, threads: Threads
) -> None:
    pack = write_pack(tmp_path, "train", 40)
    register()
    models = [FAMILIES[kind].model(attn_implementation=ATTENTION) for _ in range(2)]
    for model in models:
        guard(model)
    # Two windows, one document, and a row shorter than the group.
    rows = [micro_batch(pack, [0, 1]), micro_batch(pack, [2]).every(0, 100), _short()]
    # Tokens of one document on both ranks, or the exchange would not matter.
    assert int(rows[0].slice_for(group(1)).position_ids[0, 0]) > 0
    for row in rows:
        apart = threads.run(lambda rank, row=row: difference(models[rank.place], row, rank))  # type: ignore[misc]
        assert max(apart) < 1e-5
    kept = threads.run(lambda rank: activations(models[rank.place], rows[0].slice_for(rank)))
    assert 0.4 < kept[0] / activations(models[0], rows[0]) < 0.6
    passed = threads.run(lambda rank: compare(models[rank.place], pack, [0, 1], documents=3, context=rank).passed)
    assert passed == [True, True]


def difference(model: Any, row: MicroBatch, rank: ContextGroup) -> float:
    """The largest difference of a loss, or of a gradient relative to its tensor's largest."""
    model.zero_grad()
    losses = token_losses(model, row)
    losses.sum().backward()
    whole = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    model.zero_grad()
    part = token_losses(model, row.slice_for(rank))
    part.sum().backward()
    different = [0.0, *(part - losses[row.learned_in(rank)]).abs().tolist()]
    for name, weight in model.named_parameters():
        if name in whole:
            summed = rank.total(torch.zeros_like(weight) if weight.grad is None else weight.grad)
            largest = max(float(whole[name].abs().max()), 1e-3)
            different.append(float((summed - whole[name]).abs().max()) / largest)
    return max(different)


def activations(model: Any, row: MicroBatch) -> int:
    """Bytes that a forward pass keeps for its backward pass, without weights."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        # The losses hold the graph, so no memory is counted twice.
        losses = token_losses(model, row)
        del losses
    return sum(kept.values())


def _short() -> MicroBatch:
    return MicroBatch(
        input_ids=torch.tensor([[7]]),
        position_ids=torch.tensor([[0]]),
        boundaries=torch.tensor([0, 1], dtype=torch.int32),
        sources=torch.tensor([0]),
        targets=torch.tensor([9]),
    )


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
