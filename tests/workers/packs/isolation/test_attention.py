"""Documents that share a window never see each other."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from ft_assets.workers.packs.format import Pack
from ft_assets.workers.packs.format.layout import array_name
from ft_assets.workers.packs.isolation.attention import (
    ATTENTION,
    ROWS_ARE_PACKED,
    BrokenIsolation,
    MissingBoundaries,
    document_attention,
    register,
)
from ft_assets.workers.packs.isolation.batches import MicroBatch, micro_batch
from ft_assets.workers.training.methods.sft import Likelihood, summed_loss
from ft_assets.workers.training.validation import validation_loss
from ft_resources.errors import BadBase
from tests.workers.training.conftest import write_pack

TINY = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 320,
    "max_position_embeddings": 256,
    "head_dim": 8,
}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {},
    # Layers that look back seven tokens only, less than most documents have.
    "mistral": {"sliding_window": 7},
    "gpt_neox": {"num_key_value_heads": 4},
    # A softcap below the scores, and sinks.
    "gemma2": {
        "attn_logit_softcapping": 2.0,
        "layer_types": ["sliding_attention", "full_attention"],
        "sliding_window": 7,
    },
    "gpt_oss": {
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
        "sliding_window": 7,
        "layer_types": ["sliding_attention", "full_attention"],
    },
}
# SDPA leaves softcaps and sinks out.
EAGER = ("gemma2", "gpt_oss")


def model_of(kind: str, attention: str = ATTENTION) -> Any:
    register()
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **{**TINY, **ARCHITECTURES.get(kind, {})})
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()
    for parameter in model.parameters():
        # Larger than any initialisation, so that a leak shows.
        parameter.data = torch.randn_like(parameter) * 0.2
    return model


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    return write_pack(tmp_path, "train", 30)


def alone(pack: Pack) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(ids, labels) of each document, int64 [tokens]."""
    row = pack.read(range(len(pack)))
    ids = row.input_ids.astype(np.int64)
    labels, ends = np.where(row.learned, ids, -100), np.cumsum(row.document_lengths)[:-1]
    parts = zip(np.split(ids, ends), np.split(labels, ends), strict=True)
    return [(torch.from_numpy(one), torch.from_numpy(other)) for one, other in parts]


def isolated(model: Any, batch: MicroBatch) -> torch.Tensor:
    before = ROWS_ARE_PACKED.set(True)
    try:
        return model(
            input_ids=batch.input_ids, position_ids=batch.position_ids, cu_seq_lens_q=batch.boundaries, use_cache=False
        ).logits[0]
    finally:
        ROWS_ARE_PACKED.reset(before)


@pytest.mark.parametrize("kind", ARCHITECTURES)
@torch.no_grad()
def test_the_loss_of_a_packed_window_is_that_of_its_documents_alone(kind: str, pack: Pack) -> None:
    model = model_of(kind)
    batch = micro_batch(pack, range(len(pack)))
    plain = model_of(kind, "eager" if kind in EAGER else "sdpa")
    expected = [
        torch.nn.functional.cross_entropy(
            plain(input_ids=ids[None], use_cache=False).logits[0, :-1], labels[1:], reduction="sum"
        )
        for ids, labels in alone(pack)
    ]
    assert float(summed_loss(model, batch)) == pytest.approx(float(torch.stack(expected).sum()), rel=1e-5)


@pytest.mark.parametrize("kind", ["llama", "mistral", *EAGER])
def test_the_gradient_of_a_packed_window_is_the_sum_of_its_documents_alone(kind: str, pack: Pack) -> None:
    model, plain = model_of(kind), model_of(kind, "eager" if kind in EAGER else "sdpa")
    summed_loss(model, micro_batch(pack, range(len(pack)))).backward()
    for ids, labels in alone(pack):
        logits = plain(input_ids=ids[None], use_cache=False).logits[0, :-1]
        torch.nn.functional.cross_entropy(logits, labels[1:], reduction="sum").backward()
    for (name, mine), theirs in zip(model.named_parameters(), plain.parameters(), strict=True):
        assert mine.grad is not None, name
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-3 * float(theirs.grad.abs().max()))


def test_packed_rows_without_boundaries_are_refused(pack: Pack) -> None:
    batch = micro_batch(pack, [0, 1])
    with pytest.raises(MissingBoundaries):
        model_of("llama")(input_ids=batch.input_ids, position_ids=batch.position_ids, use_cache=False)


def test_packed_rows_of_a_model_that_does_not_show_its_masks_the_positions_are_refused_unless_it_is_said(
    pack: Pack,
) -> None:
    batch = micro_batch(pack, [0, 1])
    with pytest.raises(BrokenIsolation, match="nothing of their documents"):
        model_of("gpt_oss")(
            input_ids=batch.input_ids, position_ids=batch.position_ids, cu_seq_lens_q=batch.boundaries, use_cache=False
        )


def test_boundaries_of_other_rows_are_refused(pack: Pack) -> None:
    batch, other = micro_batch(pack, [0, 1]), micro_batch(pack, [0, 1, 2])
    with pytest.raises(MissingBoundaries, match="do not fit"):
        model_of("llama")(
            input_ids=batch.input_ids, position_ids=batch.position_ids, cu_seq_lens_q=other.boundaries, use_cache=False
        )


@pytest.mark.parametrize(("kind", "own"), [("llama", "sdpa"), *((kind, "eager") for kind in EAGER)])
@torch.no_grad()
def test_padded_rows_give_what_the_architectures_own_attention_gives(kind: str, own: str) -> None:
    ids = torch.randint(0, 300, (3, 12))
    mask = torch.ones_like(ids)
    mask[0, :5] = 0
    ours, plain = model_of(kind), model_of(kind, own)
    exact = {} if own == "eager" else {"rtol": 0.0, "atol": 0.0}
    torch.testing.assert_close(
        ours(input_ids=ids, attention_mask=mask).logits[mask.bool()],
        plain(input_ids=ids, attention_mask=mask).logits[mask.bool()],
        **exact,
    )
    assert torch.equal(
        ours.generate(ids, attention_mask=mask, max_new_tokens=4, do_sample=False),
        plain.generate(ids, attention_mask=mask, max_new_tokens=4, do_sample=False),
    )


def test_an_architecture_that_adds_a_bias_to_its_scores_is_refused() -> None:
    q = torch.randn(1, 2, 4, 8)
    with pytest.raises(BadBase, match="bias"):
        document_attention(torch.nn.Module(), q, q, q, None, position_bias=torch.zeros(1, 2, 4, 4))


@torch.no_grad()
def test_labels_that_are_masked_do_not_matter_to_the_loss(pack: Pack) -> None:
    model = model_of("llama")
    batch = micro_batch(pack, [0, 1])
    positions = set(range(batch.tokens)) - set((batch.sources + 1).tolist())
    assert len(positions) > batch.learned / 2
    reference = isolated(model, batch).log_softmax(-1)[batch.sources, batch.targets].sum()
    assert float(summed_loss(model, batch)) == pytest.approx(-float(reference), rel=1e-6)
    assert pack.read([0, 1]).learned.sum() == batch.learned


def test_the_first_token_of_a_document_is_never_learned_even_if_labelled(tmp_path: Path, pack: Pack) -> None:
    (shard,) = pack.shards()
    learned = shard.learned.copy()
    learned[shard.document_offsets[:-1]] = True
    np.save(tmp_path / array_name("train", 0, "learned"), learned)
    batch = micro_batch(Pack.open(tmp_path, "train"), [0, 1])
    assert not set((batch.sources + 1).tolist()) & set(batch.boundaries.tolist())
    assert batch.learned == micro_batch(pack, [0, 1]).learned


def test_validation_loss_does_not_depend_on_the_batch_and_restores_the_mode(pack: Pack) -> None:
    model = model_of("llama").train()
    losses = [
        validation_loss(model, Likelihood({}), pack, torch.device("cpu"), windows, lambda: None)
        for windows in (1, 3, 100)
    ]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-5)
    assert model.training
