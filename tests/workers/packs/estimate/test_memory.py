"""Peak memory: hand-computed, monotonic, and held against tensors counted in real training steps."""

import json
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.auto.configure import configure
from ft_assets.control.auto.fitting import fit_of, memory_setup
from ft_assets.settings.gpus import GIB
from ft_assets.settings.recipe.training import LoraSettings
from ft_assets.workers.model_size.known import known_base, score_bytes
from ft_assets.workers.model_size.memory import NF4_BYTES, Memory, Setup, peak_memory, trained_parameters
from tests.workers.packs.estimate.made import LLAMA_3_8B, llama, setup, share
from tests.workers.training.configuration.made import recipe


def test_full_fine_tuning_of_llama_3_8b_keeps_sixteen_bytes_a_parameter() -> None:
    model = llama(**LLAMA_3_8B)
    found = peak_memory(model, setup(variant="full", precision="bf16", tokens=1, gpus=1))
    assert (found.weights, found.gradients, found.optimizer) == tuple(n * model.parameters for n in (4.0, 4.0, 8.0))


def test_lora_holds_the_base_in_two_bytes_and_its_adapters_in_sixteen() -> None:
    model = llama(**LLAMA_3_8B)
    found = peak_memory(model, setup(precision="bf16", rank=16, tokens=1, gpus=1))
    adapters = model.adapter_parameters(16, "all-linear")
    assert found.weights == 2 * model.parameters + 4 * adapters
    assert found.gradients + found.optimizer == 12 * adapters


def test_nf4_with_double_quantisation_takes_4_127_bits_a_weight() -> None:
    assert 4.126 < 8 * NF4_BYTES < 4.128
    model = llama(**LLAMA_3_8B)
    quantised = peak_memory(model, setup(variant="qlora", precision="bf16", rank=16, tokens=1, gpus=1)).weights
    # The QLoRA paper's and everybody's experience: 8B take about 5.5 GiB with their embeddings in 16 bits.
    assert quantised / 2**30 == pytest.approx(5.4, abs=0.2)


def test_moments_in_8_bits_are_a_quarter_of_those_in_32_but_for_embeddings() -> None:
    model = llama(**LLAMA_3_8B)
    whole, small = (
        peak_memory(model, setup(variant="full", precision="bf16", optimizer=name, tokens=1, gpus=1)).optimizer
        for name in ("adamw", "adamw_8bit")
    )
    embeddings = 8 * model.vocabulary * model.hidden
    assert small - embeddings == pytest.approx((whole - embeddings) / 4, rel=0.02)


def test_muon_keeps_one_moment_of_the_layers_matrices_and_two_of_the_rest() -> None:
    model = llama(**LLAMA_3_8B)
    found = peak_memory(model, setup(variant="full", precision="bf16", optimizer="muon", tokens=1, gpus=1))
    assert found.optimizer == 4 * model.matrices + 8 * (model.parameters - model.matrices)


def test_adafactor_keeps_next_to_nothing() -> None:
    model = llama(**LLAMA_3_8B)
    found = peak_memory(model, setup(variant="full", precision="bf16", optimizer="adafactor", tokens=1, gpus=1))
    assert 0 < found.optimizer < 0.01 * model.parameters


@pytest.mark.parametrize(
    ("shards", "weights", "gradients", "optimizer"),
    # Beside 8 bytes of moments DeepSpeed has 4 of a copy of the weights.
    [("none", 1, 1, 1), ("zero1", 1, 1, 16 / 3), ("zero2", 1, 8, 16 / 3), ("zero3", 8, 8, 16 / 3), ("fsdp", 8, 8, 8)],
)
def test_shards_divide_what_their_stage_divides(shards: Any, weights: int, gradients: int, optimizer: float) -> None:
    one = peak_memory(llama(), setup(variant="full", gpus=1))
    many = peak_memory(llama(), setup(variant="full", gpus=8, shards=shards))
    assert one.weights / many.weights == weights
    assert one.gradients / many.gradients == gradients
    assert one.optimizer / many.optimizer == pytest.approx(optimizer)


def test_activations_of_one_llama_layer_in_float32_by_hand() -> None:
    # Korthikanti et al. count an operation's saved inputs; for h = 64, 4 heads of 16, 2 key heads, 96 wide inside,
    # one token, everything trained: two normalisations (row, normalised row) 4 x 64; inputs of the matrices
    # 64 + 64 + 64 + 96; queries and result 2 x 64, keys and values 2 x 32; gate, activated gate, way up 3 x 96.
    numbers = 4 * 64 + (64 + 64 + 64 + 96) + 2 * 64 + 2 * 32 + 3 * 96
    one, two = (
        peak_memory(llama(num_hidden_layers=layers), setup(variant="full", tokens=1)).activations for layers in (1, 2)
    )
    # Beside them 4 bytes a head (of the softmax) and 8 for two normalisations' scales.
    assert two - one == 4 * numbers + 4 * 4 + 8


SETUPS = st.builds(
    Setup,
    variant=st.sampled_from(["full", "lora", "qlora"]),
    precision=st.sampled_from(["fp32", "bf16"]),
    tokens=st.integers(1, 100_000),
    learned=st.floats(0, 1).map(share),
    optimizer=st.sampled_from(["adamw", "adamw_8bit", "adafactor", "muon"]),
    rank=st.integers(1, 64),
    dropout=st.booleans(),
    dora=st.booleans(),
    accumulates=st.booleans(),
    recompute=st.integers(0, 5),
    offload=st.booleans(),
    gpus=st.integers(0, 8),
    shards=st.sampled_from(["none", "zero1", "zero2", "zero3", "fsdp", "hsdp"]),
)


def changed(base: Setup, **changes: Any) -> Setup:
    return replace(base, **changes)


def never_less(first: Memory, second: Memory) -> bool:
    pairs = ((getattr(first.total, name), getattr(second.total, name)) for name in ("lower", "expected", "upper"))
    return all(small <= large * (1 + 1e-12) for small, large in pairs)


@given(base=SETUPS, more=st.integers(1, 1000))
def test_more_tokens_rank_layers_width_or_words_never_take_less(base: Setup, more: int) -> None:
    model = llama()
    now = peak_memory(model, base)
    assert never_less(now, peak_memory(model, changed(base, tokens=base.tokens + more)))
    assert never_less(now, peak_memory(model, changed(base, rank=base.rank + more)))
    assert never_less(now, peak_memory(model, changed(base, learned=share(1.0))))
    assert never_less(now, peak_memory(model, changed(base, accumulates=True)))
    for size in ("num_hidden_layers", "intermediate_size", "vocab_size"):
        default = {"num_hidden_layers": 2, "intermediate_size": 96, "vocab_size": 100}[size]
        assert never_less(now, peak_memory(llama(**{size: default + more}), base))


@given(base=SETUPS)
def test_recomputing_layers_never_takes_more_than_a_layer_more(base: Setup) -> None:
    model = llama(num_hidden_layers=12)
    takes = [peak_memory(model, changed(base, recompute=every)).total.expected for every in (1, 2, 4, 0)]
    assert takes == sorted(takes)


@given(base=SETUPS)
def test_offloading_takes_no_more_of_a_device_and_less_where_layers_are_recomputed(base: Setup) -> None:
    model = llama(num_hidden_layers=12)
    here, there = (peak_memory(model, changed(base, offload=offload)).activations for offload in (False, True))
    assert there < here if base.recompute else there == here


@given(base=SETUPS)
def test_adapters_take_less_than_the_whole_model(base: Setup) -> None:
    model = llama(hidden_size=512, intermediate_size=1536, vocab_size=4000)
    whole = peak_memory(model, changed(base, variant="full", rank=4, optimizer="adamw", dropout=False))
    base = changed(base, dora=False)
    assert never_less(peak_memory(model, changed(base, variant="lora", rank=4, dropout=False)), whole)


@pytest.mark.parametrize(("variant", "rise"), [("full", 996e6), ("lora", 1162e6)])
def test_what_processes_were_seen_to_take_lies_inside_the_bounds(variant: Any, rise: float) -> None:
    """How far steps like those below raised the resident memory of a process, see docs/explanation/estimates.md"""
    model = llama(
        hidden_size=256,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
        intermediate_size=640,
        vocab_size=7000,
    )
    found = peak_memory(model, setup(variant=variant, rank=16, tokens=3436)).total
    assert found.lower - 0.5 * GIB < rise < found.upper - 1.6 * GIB
    on_a_gpu = peak_memory(model, setup(variant=variant, rank=16, tokens=3436, gpus=1)).total
    assert found.upper - 1.6 * GIB > 1.3 * (on_a_gpu.upper - 2 * GIB)


# Of each variant one in `make test`, and each way to recompute.
MEASURED: list[Any] = [
    *(("full", "fp32", 0), ("lora", "fp32", 2), ("full", "bf16", 1), ("full in bf16", "bf16", 0)),
    *(("full in 8 bits", "bf16", 1), ("full in bf16 in 8 bits", "bf16", 1), ("dora", "bf16", 0), ("pissa", "fp32", 0)),
    *(
        pytest.param(*each, marks=pytest.mark.long)
        for each in (
            *(("full", "fp32", 1), ("full", "fp32", 2), ("lora", "fp32", 0), ("lora", "fp32", 1), ("lora", "bf16", 0)),
            *(("full", "bf16", 0), ("full", "bf16", 2), ("full in bf16", "bf16", 1), ("full in bf16", "bf16", 2)),
            *(("dora", "fp32", 0), ("dora", "fp32", 1), ("pissa", "bf16", 0)),
        )
    ),
]


KINDS: dict[str, dict[str, Any]] = {"dora": {"use_dora": True}, "pissa": {"init": "pissa"}}


@pytest.mark.parametrize("kind", ["gemma2", "gpt_oss"])
def test_a_score_takes_the_bytes_that_are_counted_in_a_backward_pass(kind: str) -> None:
    import torch

    from ft_assets.workers.packs.isolation.scores import Changes, attend
    from tests.workers.packs.estimate.meter import Meter

    heads, tokens = 4, 256
    changes = Changes(softcap=5.0) if kind == "gemma2" else Changes(sinks=torch.zeros(heads))
    expected = score_bytes(json.dumps({"model_type": kind, "num_attention_heads": heads}).encode()) * tokens**2
    for dtype in (torch.float32, torch.bfloat16):
        rows = [torch.randn(1, count, tokens, 8, dtype=dtype, requires_grad=True) for count in (heads, 2, 2)]
        meter = Meter()
        with meter:
            attend(rows[0], rows[1], rows[2], 0.0, None, changes).sum().backward()
        assert meter.peak == pytest.approx(expected, rel=0.05)


@pytest.mark.training
@pytest.mark.parametrize(
    ("kind", "packing"),
    [
        *(("gemma2", "packed"), ("gpt_oss", "apart")),
        *(pytest.param(*each, marks=pytest.mark.long) for each in (("gemma2", "apart"), ("gpt_oss", "packed"))),
    ],
)
def test_the_scores_of_one_layer_are_counted_where_an_architecture_changes_them(kind: str, packing: str) -> None:
    """A forward pass of two documents, whose scores are most of what it needs beside the weights."""
    from ft_assets.workers.packs.isolation import attention
    from ft_assets.workers.packs.isolation.forward import run_apart, token_losses
    from tests.workers.packs.estimate.meter import Meter, packed_row
    from tests.workers.training.families import FAMILIES

    attention.register()
    model = FAMILIES[kind].model(attn_implementation=attention.ATTENTION).train()
    if packing == "apart":
        run_apart(model)
    row = packed_row(tokens=2048, documents=2, learned=0.1, vocabulary=200)
    meter = Meter()
    with meter:
        token_losses(model, row).sum().backward()
    config = model.config.to_json_string(use_diff=False).encode()
    known = replace(known_base(config), examples=2, tokens=2048, counted=True)
    asked = recipe(
        hardware={"gpus": 0}, packing={"max_length": 1024, "mode": packing}, training={"micro_batch_size": 2}
    )
    asked = configure(asked, known).recipe
    found = memory_setup(asked, known, fit_of(asked)).scores
    assert found.lower <= found.expected <= found.upper
    # Besides them only the layers' rows.
    assert 0.95 * found.expected < meter.peak < 1.4 * found.expected
    with_scores, without = (
        peak_memory(llama(), replace(setup(tokens=2048), scores=each)).total for each in (found, share(0.0))
    )
    assert with_scores.expected > without.expected + 0.9 * found.expected


def in_8_bits(model: Any) -> Any:
    """The optimizer as Transformers sets it up: with moments of embeddings in 32 bits."""
    from bitsandbytes.optim import AdamW8bit, GlobalOptimManager

    GlobalOptimManager.get_instance().register_module_override(model.model.embed_tokens, "weight", {"optim_bits": 32})
    return AdamW8bit(model.parameters())


@pytest.mark.training
@pytest.mark.parametrize(("variant", "precision", "recompute"), MEASURED)
def test_the_peak_is_within_a_tenth_of_the_tensors_counted_in_real_steps(
    variant: Any, precision: Any, recompute: int
) -> None:
    """Two optimizer steps of two forward passes each, over packed documents, as the trainer does them."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from ft_assets.workers.packs.isolation import attention
    from ft_assets.workers.packs.isolation.forward import token_losses
    from ft_assets.workers.training.model import with_adapters
    from ft_assets.workers.training.rounding import Bits, RoundedAdamW, round_in_8_bits
    from tests.workers.packs.estimate.meter import Meter, packed_row

    attention.register()
    sizes = {
        "hidden_size": 128,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 320,
        "vocab_size": 1024,
    }
    settings: Any = sizes | {"tie_word_embeddings": True, "attn_implementation": attention.ATTENTION}
    config = LlamaConfig(**settings)
    frozen, rounded = not variant.startswith("full"), variant.startswith("full in bf16")
    eight_bits = variant.endswith("in 8 bits")
    model: Any = LlamaForCausalLM(config)
    model = model.to(torch.bfloat16 if (frozen and precision == "bf16") or rounded else torch.float32).train()
    if frozen:
        model = with_adapters(model, LoraSettings(rank=4, alpha=8, **KINDS.get(variant, {})))
    if recompute:
        model.activation_checkpointing_enable(every_n_layers=recompute)
        model.enable_input_require_grads()
    row = packed_row(tokens=1024, documents=4, learned=0.25, vocabulary=1024)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer: Any = torch.optim.AdamW(trained, fused=True)
    if eight_bits:
        optimizer = in_8_bits(model)
        round_in_8_bits(optimizer, Bits(17))
    elif rounded:
        optimizer = RoundedAdamW(optimizer, Bits(17))
    meter = Meter()
    meter.track(list(model.parameters()))
    with meter:
        for _ in range(2):
            for _ in range(2):
                half = torch.autocast("cpu", torch.bfloat16, cache_enabled=not recompute)
                autocast = half if precision == "bf16" else nullcontext()
                with autocast:
                    loss = token_losses(model, row).sum()
                loss.backward()
                del loss
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    kind: dict[str, Any] = {variant: True} if variant in KINDS else {"weights": "bfloat16"} if rounded else {}
    kind |= {"optimizer": "adamw_8bit"} if eight_bits else {}
    ours = setup(variant="lora" if frozen else "full", precision=precision, tokens=1024, recompute=recompute, **kind)
    architecture = llama(**sizes)
    assert trained_parameters(architecture, ours) == sum(parameter.numel() for parameter in trained)
    found = peak_memory(architecture, ours)
    parts = found.weights + found.gradients + found.optimizer + found.activations
    assert parts == pytest.approx(meter.peak, rel=0.10)
    assert found.total.lower - 0.5 * 2**30 < meter.peak < found.total.upper - 1.6 * 2**30
