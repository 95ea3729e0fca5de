"""Muon for the layers' matrices and AdamW for the rest are two optimizers of PyTorch's in one."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch.optim import AdamW, Muon
from transformers import LlamaConfig, LlamaForCausalLM

from ft_assets.workers.training.muon import MuonAndAdamW


def llama() -> Any:
    torch.manual_seed(1)
    sizes: Any = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    return LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=50, tie_word_embeddings=False))


def test_matrices_of_the_layers_are_muons_and_all_else_is_adamws() -> None:
    mine, theirs = llama(), llama()
    decayed = [weight for weight in mine.parameters() if weight.ndim > 1]
    vectors = [weight for weight in mine.parameters() if weight.ndim == 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    ours = MuonAndAdamW(AdamW(groups, lr=1e-2, fused=True), mine)

    named = dict(theirs.named_parameters())
    outer = {name for name in named if "embed" in name or "lm_head" in name}
    matrices = [weight for name, weight in named.items() if weight.ndim == 2 and name not in outer]
    expected = [
        Muon(matrices, lr=1e-2, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        AdamW([named[name] for name in outer], lr=1e-2, weight_decay=0.1, fused=True),
        AdamW([weight for weight in named.values() if weight.ndim == 1], lr=1e-2, weight_decay=0.0, fused=True),
    ]
    tokens = torch.arange(40).reshape(2, 20)
    for _ in range(3):
        for model, optimizers in ((mine, [ours]), (theirs, expected)):
            model(input_ids=tokens, labels=tokens).loss.backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
    for name, weight in mine.named_parameters():
        assert torch.equal(weight, named[name]), name
    with_two = {name for name, weight in mine.named_parameters() if "exp_avg_sq" in ours.state[weight]}
    assert with_two == outer | {name for name, weight in named.items() if weight.ndim == 1}


@pytest.mark.parametrize("steps", [1, 3])
def test_a_loaded_state_goes_on_as_the_saved_one(steps: int) -> None:
    model, other = llama(), llama()
    first = MuonAndAdamW(AdamW(model.parameters(), lr=1e-2, fused=True), model)
    tokens = torch.arange(40).reshape(2, 20)

    def step(model: Any, optimizer: torch.optim.Optimizer) -> None:
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(steps):
        step(model, first)
    other.load_state_dict(model.state_dict())
    again = MuonAndAdamW(AdamW(other.parameters(), lr=1e-2, fused=True), other)
    again.load_state_dict(deepcopy(first.state_dict()))
    step(model, first)
    step(other, again)
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), other.parameters(), strict=True))
