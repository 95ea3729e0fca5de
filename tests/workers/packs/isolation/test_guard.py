"""Rows in which documents could see each other do not get into a guarded model, however it is wrapped."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from ft_assets.settings.recipe.training import TrainingSettings
from ft_assets.workers.evals.model import load_model
from ft_assets.workers.packs.isolation.attention import ATTENTION, BrokenIsolation, MissingBoundaries
from ft_assets.workers.packs.isolation.guard import guard, starts_again
from ft_assets.workers.packs.isolation.tiny import tiny_model
from ft_assets.workers.training.model import load_base
from ft_resources.errors import BadBase
from tests.fake_base import make_fake_base

LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
IDS = torch.arange(24)[None]
POSITIONS = torch.cat([torch.arange(10), torch.arange(14)])[None]
BOUNDARIES = torch.tensor([0, 10, 24], dtype=torch.int32)
PACKED = {"position_ids": POSITIONS, "cu_seq_lens_q": BOUNDARIES}


class Wrapped(torch.nn.Module):
    """Stands for DDP, FSDP and compiled models, which hold the model and pass calls on."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)


@pytest.fixture
def model() -> Any:
    made = tiny_model(LLAMA)
    guard(made)
    return made


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"position_ids": POSITIONS}, "does not say where"),
        ({"position_ids": POSITIONS, "attention_mask": torch.ones_like(IDS)}, "does not say where"),
        ({**PACKED, "attention_mask": torch.ones_like(IDS)}, "attention_mask"),
        ({**PACKED, "past_key_values": ()}, "past_key_values"),
        ({"cu_seq_lens_q": BOUNDARIES}, "without position_ids"),
        ({**PACKED, "cu_seq_lens_q": torch.tensor([0, 11, 24])}, "do not start again"),
        ({**PACKED, "cu_seq_lens_q": torch.tensor([0, 10, 23])}, "do not fit"),
        ({**PACKED, "cu_seq_lens_q": torch.tensor([0, 10, 10, 24])}, "do not fit"),
        ({**PACKED, "position_ids": POSITIONS.expand(2, -1)}, "one row"),
    ],
)
def test_a_call_that_could_leak_is_refused(model: Any, arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(BrokenIsolation, match=problem):
        model(input_ids=IDS, **arguments)


def test_positions_given_by_place_are_looked_at_too(model: Any) -> None:
    with pytest.raises(MissingBoundaries):
        model(IDS, None, POSITIONS)


@torch.no_grad()
def test_boundaries_switch_the_cache_off_whatever_the_call_or_the_config_says(model: Any) -> None:
    model.config.use_cache = True
    quiet = model(input_ids=IDS, use_cache=False, **PACKED)
    for asked in ({"use_cache": True}, {}):
        out = model(input_ids=IDS, **asked, **PACKED)
        assert out.past_key_values is None
        assert torch.equal(out.logits, quiet.logits)


@torch.no_grad()
def test_the_guard_reaches_through_peft_and_other_wrappers() -> None:
    from peft import LoraConfig, get_peft_model

    bare = tiny_model(LLAMA)
    wrapped = Wrapped(get_peft_model(bare, LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")))
    guard(wrapped)
    hooks = len(bare._forward_pre_hooks)
    guard(bare)
    assert len(bare._forward_pre_hooks) == hooks == 1
    with pytest.raises(MissingBoundaries):
        wrapped(input_ids=IDS, position_ids=POSITIONS)
    assert wrapped(input_ids=IDS, use_cache=True, **PACKED).past_key_values is None


def test_the_decoder_is_guarded_as_its_model_is(model: Any) -> None:
    with pytest.raises(MissingBoundaries):
        model.model(input_ids=IDS, position_ids=POSITIONS)


def test_a_model_with_another_attention_is_refused_when_guarded_and_when_switched_later(model: Any) -> None:
    plain = AutoModelForCausalLM.from_config(model.config, attn_implementation="sdpa")
    with pytest.raises(BrokenIsolation, match="sdpa"):
        guard(plain)
    with pytest.raises(BrokenIsolation, match="no model"):
        guard(torch.nn.Linear(2, 2))
    model.set_attn_implementation("sdpa")
    with pytest.raises(BrokenIsolation, match="sdpa"):
        model(input_ids=IDS, **PACKED)


@torch.no_grad()
def test_answers_are_generated_as_before(model: Any) -> None:
    mask = torch.ones_like(IDS).repeat(2, 1)
    mask[0, :5] = 0
    made = model.generate(IDS.repeat(2, 1), attention_mask=mask, max_new_tokens=3, do_sample=False)
    assert made.shape == (2, 27)


def test_the_evaluator_has_the_trainer_s_attention_and_guard(tmp_path: Path) -> None:
    loaded = load_model(make_fake_base(tmp_path / "base")).model
    assert loaded.config._attn_implementation == ATTENTION
    with pytest.raises(MissingBoundaries):
        loaded(input_ids=IDS, position_ids=POSITIONS)


def test_trainer_and_evaluator_refuse_what_is_not_causal_before_they_read_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5"}))
    for load in (
        lambda: load_model(tmp_path),
        lambda: load_base(tmp_path, TrainingSettings(precision="fp32"), full=True),
    ):
        with pytest.raises(BadBase, match="not a causal language model"):
            load()


@pytest.mark.training
@torch.no_grad()
def test_a_compiled_model_is_guarded_and_computes_the_same(model: Any) -> None:
    compiled = torch.compile(model, backend="eager")
    assert torch.equal(compiled(input_ids=IDS, use_cache=True, **PACKED).logits, model(input_ids=IDS, **PACKED).logits)
    with pytest.raises(MissingBoundaries):
        compiled(input_ids=IDS, position_ids=POSITIONS)


@pytest.mark.parametrize(
    ("positions", "mask", "again"),
    [
        ([0, 1, 2, 3], None, False),
        ([0, 1, 0, 1], None, True),
        ([3, 4, 4, 5], None, True),
        ([7], None, False),
        ([1, 1, 0, 1], [0, 0, 1, 1], False),
        ([1, 1, 0, 0], [0, 0, 1, 1], True),
        ([0, 1, 2, 0], [1, 1, 1, 0], False),
    ],
)
def test_positions_start_again_only_between_real_tokens(
    positions: list[int], mask: list[int] | None, again: bool
) -> None:
    assert starts_again(torch.tensor([positions]), None if mask is None else torch.tensor([mask])) is again
