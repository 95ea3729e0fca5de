from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model

from ft_assets.workers.training.variants.fused_lora import join_adapters


def make(*, bias: bool = True, dtype: torch.dtype = torch.float32, seed: int = 0, **lora: Any) -> Any:
    """Two linear layers with adapters that change the output."""
    torch.manual_seed(seed)
    layers = torch.nn.Sequential(torch.nn.Linear(12, 20, bias=bias), torch.nn.SiLU(), torch.nn.Linear(20, 7, bias=bias))
    config: dict[str, Any] = {"r": 4, "lora_alpha": 6, "target_modules": ["0", "2"], **lora}
    model = get_peft_model(layers.to(dtype), LoraConfig(**config))
    for name, weight in model.named_parameters():
        if "lora_" in name:
            weight.data = torch.randn(weight.shape) * 0.3
    return model


def learned(model: Any, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """The output, and the gradients including the input's."""
    x = x.clone().requires_grad_()
    out = model(x)
    (out.float() ** 2).sum().backward()
    assert x.grad is not None
    return {"out": out.detach(), "x": x.grad, **{n: p.grad for n, p in model.named_parameters() if p.grad is not None}}


@given(rows=st.integers(1, 9), bias=st.booleans(), seed=st.integers(0, 99))
def test_output_and_all_gradients_are_pefts_up_to_rounding(rows: int, bias: bool, seed: int) -> None:
    model, joined = make(bias=bias, seed=seed), make(bias=bias, seed=seed)
    assert join_adapters(joined) == 2
    x = torch.randn(2, rows, 12)
    expected, found = learned(model, x), learned(joined, x)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-4, msg=lambda text, name=name: name + text)


def test_under_autocast_it_computes_in_half_precision_and_gives_gradients_in_the_adapters_own() -> None:
    model, joined = make(dtype=torch.bfloat16), make(dtype=torch.bfloat16)
    join_adapters(joined)
    x = torch.randn(3, 5, 12)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected, found = learned(model, x), learned(joined, x)
    assert found["out"].dtype == torch.bfloat16
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        assert (found[name] - value).norm() < 0.03 * value.norm(), name


@pytest.mark.parametrize(("computed", "given_in"), [(torch.float32, torch.float32), (torch.bfloat16, torch.float32)])
@pytest.mark.parametrize("autocast", [False, True])
def test_over_a_base_in_4_bits_it_is_pefts_too(computed: torch.dtype, given_in: torch.dtype, autocast: bool) -> None:
    bitsandbytes = pytest.importorskip("bitsandbytes")

    def four_bit() -> Any:
        torch.manual_seed(0)
        layers = torch.nn.Sequential(
            *(
                bitsandbytes.nn.Linear4bit(*shape, compute_dtype=computed, quant_type="nf4", compress_statistics=True)
                for shape in ((64, 128), (128, 64))
            )
        ).to("cpu")
        # What Transformers says of a model that it loaded so.
        layers.is_loaded_in_4bit = True  # type: ignore[assignment]
        model = get_peft_model(layers, LoraConfig(r=4, lora_alpha=6, target_modules=["0", "1"]))
        for name, weight in model.named_parameters():
            if "lora_" in name:
                weight.data = torch.randn(weight.shape) * 0.1
        for layer in layers:
            layer.base_layer.support_avx512bf16_for_cpu = False
        return model

    model, joined = four_bit(), four_bit()
    assert join_adapters(joined) == 2
    x = torch.randn(2, 5, 64, dtype=given_in)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        expected, found = learned(model, x), learned(joined, x)
    assert found.keys() == expected.keys()
    rounding = 1e-5 if computed == torch.float32 and not autocast else 0.03
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        assert (found[name] - value).norm() <= rounding * value.norm(), name


def test_an_adapter_that_is_switched_off_or_merged_is_not_computed() -> None:
    joined = make()
    x = torch.randn(4, 12)
    with joined.disable_adapter():
        base = joined(x)
    join_adapters(joined)
    with joined.disable_adapter():
        assert torch.equal(joined(x), base)
    adapted = joined(x)
    joined.merge_adapter()
    torch.testing.assert_close(joined(x), adapted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("lora", [{"lora_dropout": 0.1}, {"use_dora": True}, {"lora_bias": True}])
def test_what_is_more_than_plain_lora_stays_pefts(lora: dict[str, Any]) -> None:
    assert join_adapters(make(**lora)) == 0


def test_a_layer_that_trains_itself_keeps_its_gradients() -> None:
    model = make()
    model.base_model.model[0].base_layer.bias.requires_grad_()
    assert join_adapters(model) == 1
    assert "base_model.model.0.base_layer.bias" in learned(model, torch.randn(3, 12))


@pytest.fixture
def shard() -> Iterator[Any]:
    """A layer's weights as FSDP2 holds them, on one rank."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield lambda model: fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    dist.destroy_process_group()


def test_weights_in_shards_are_left_to_the_hooks_that_gather_them(shard: Any) -> None:
    model = make()
    shard(model.base_model.model[0].base_layer)
    assert join_adapters(model) == 1
