"""Adapters computed in one go equal PEFT's; PiSSA's begin as each weight's largest part; kernels pass adapters by."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from peft.tuners.lora.layer import LoraLayer
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from ft_assets.settings.recipe.training import LoraSettings, TrainingSettings
from ft_assets.workers.packs.isolation.choice import choose
from ft_assets.workers.training.model import load_base, require_targets, with_adapters
from ft_assets.workers.training.train import train
from ft_assets.workers.training.variants import pissa
from ft_assets.workers.training.variants.adapter_targets import read_not_called
from ft_assets.workers.training.variants.fused_lora import join_adapters
from ft_resources.errors import BadRecipe
from tests.fake_base import make_fake_base
from tests.workers.packs.isolation.kernels_on_cpu import install
from tests.workers.training.families import FAMILIES
from tests.workers.training.placed import PLACED
from tests.workers.training.test_train import assert_same, run_killed_at
from tests.workers.training.variants.kinds import make_kind


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


def bases(folder: Path) -> list[Any]:
    """One whose layers keep [out, in], and one whose keep [in, out]."""
    torch.manual_seed(3)
    config = GPT2Config(vocab_size=60, n_embd=16, n_layer=2, n_head=2, n_positions=32)
    return [
        AutoModelForCausalLM.from_pretrained(make_fake_base(folder), dtype=torch.float32),
        GPT2LMHeadModel(config).eval(),
    ]


@pytest.mark.parametrize("scale", [{"alpha": 8}, {"alpha": 3, "use_rslora": True}])
def test_the_adapters_begin_as_nearly_the_best_approximation_of_their_weights_and_change_nothing(
    tmp_path: Path, scale: dict[str, Any]
) -> None:
    for base in bases(tmp_path):
        before = {name: value.clone() for name, value in base.state_dict().items()}
        tokens = torch.arange(12)[None]
        expected = base(tokens).logits
        model = with_adapters(base, LoraSettings(rank=4, init="pissa", **scale)).eval()
        torch.testing.assert_close(model(tokens).logits, expected, atol=1e-4, rtol=0)
        layers: list[Any] = [layer for layer in model.modules() if isinstance(layer, LoraLayer)]
        assert layers
        for layer in layers:
            whole = layer.get_base_layer().weight
            assert any(whole.equal(value) for value in before.values())
            least = torch.linalg.svdvals(whole)[4:].norm()
            assert least <= (whole - layer.get_delta_weight("default")).norm() * (1 + 1e-5) <= 1.02 * least
            assert layer.get_delta_weight("default").equal(-layer.get_delta_weight(pissa.PRINCIPAL))
        trained = {name for name, value in model.named_parameters() if value.requires_grad}
        assert len(trained) == 2 * len(layers)
        assert not [name for name in trained if ".default." not in name]
        assert join_adapters(model) == 0


def test_a_weight_with_fewer_singular_values_than_the_rank_begins_as_in_plain_lora_beyond_them(tmp_path: Path) -> None:
    base, _ = bases(tmp_path)
    model = with_adapters(base, LoraSettings(rank=40, alpha=40, init="pissa"))
    layer: Any = next(layer for layer in model.modules() if isinstance(layer, LoraLayer))
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    assert not b[:, 32:].any()
    assert (a[32:] != 0).all()
    torch.testing.assert_close(b @ a, layer.get_base_layer().weight, atol=1e-4, rtol=0)


def test_an_embedding_is_refused_by_name(tmp_path: Path) -> None:
    base, _ = bases(tmp_path)
    with pytest.raises(BadRecipe, match=r"pissa is for linear layers, and model\.embed_tokens is not one"):
        with_adapters(base, LoraSettings(rank=4, alpha=4, init="pissa", target_modules=["q_proj", "embed_tokens"]))


@pytest.mark.training
def test_a_run_that_goes_on_where_weights_decompose_otherwise_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = train(make_kind(tmp_path / "quiet", "pissa").context())
    bench = make_kind(tmp_path / "killed", "pissa")
    run_killed_at(bench, 1, 6)
    decompose = torch.svd_lowrank

    def elsewhere(*given: Any, **named: Any) -> Any:
        left, values, right = decompose(*given, **named)
        return -left, values * 1.01, -right

    monkeypatch.setattr(torch, "svd_lowrank", elsewhere)
    resumed = train(bench.context(2))
    assert resumed.facts["resumed"]
    assert_same(quiet, resumed)


@pytest.mark.training
def test_the_exported_adapter_is_plain_lora_of_twice_the_rank(tmp_path: Path) -> None:
    from peft import LoraConfig
    from safetensors.torch import load_file

    result = train(make_kind(tmp_path, "pissa_rslora", max_steps=2).context())
    config = LoraConfig.from_pretrained(str(result.folder / "final"))
    assert (config.r, config.lora_alpha, config.use_rslora, config.init_lora_weights) == (8, 32.0, False, True)
    shapes = {value.shape for value in load_file(result.folder / "final" / "adapter_model.safetensors").values()}
    assert shapes == {(8, 32), (32, 8), (8, 64), (64, 8)}


MAMBA_2 = ["mamba2", "bamba", "falcon_h1", "granitemoehybrid", "zamba2", "nemotron_h"]
MAMBA = ["mamba", "falcon_mamba"]
IDS = torch.arange(40, 72)[None]


def with_kernels(monkeypatch: pytest.MonkeyPatch, kind: str) -> list[str]:
    """Stand-ins for mamba-ssm's fused kernels; returns where calls of them are listed."""
    called: list[str] = []
    if kind in MAMBA_2:
        install(monkeypatch, kind)
    modeling = import_module(f"transformers.models.{kind}.modeling_{kind}")
    name = "mamba_inner_fn" if kind in MAMBA else "mamba2_split_conv1d_scan_combined"
    kernel = mamba_inner if kind in MAMBA else getattr(modeling, name)

    def watched(*args: Any, **kwargs: Any) -> Any:
        called.append(name)
        return kernel(*args, **kwargs)

    monkeypatch.setattr(modeling, name, watched)
    return called


def mamba_inner(
    xz: torch.Tensor,
    conv1d_weight: torch.Tensor,
    conv1d_bias: torch.Tensor | None,
    x_proj_weight: torch.Tensor,
    delta_proj_weight: torch.Tensor,
    out_proj_weight: torch.Tensor,
    *_: Any,
    **__: Any,
) -> torch.Tensor:
    """Every weight it is given has a part in the result, as in mamba-ssm's; the recurrence has none."""
    x, z = xz.chunk(2, 1)
    x = x * conv1d_weight.sum() + (0 if conv1d_bias is None else conv1d_bias[:, None])
    small = (x.mT @ x_proj_weight.mT)[..., : delta_proj_weight.shape[1]]
    found = (x.mT + small @ delta_proj_weight.mT) * torch.nn.functional.silu(z.mT)
    return found @ out_proj_weight.mT


def backward(model: Any) -> dict[str, torch.Tensor | None]:
    """The gradients of what trains."""
    logits = model.train()(input_ids=IDS, use_cache=False).logits[0, :-1].float()
    cross_entropy(logits, IDS[0, 1:]).backward()
    return {name: weight.grad for name, weight in model.named_parameters() if weight.requires_grad}


def lora(targets: Any = "all-linear") -> LoraSettings:
    return LoraSettings(rank=2, alpha=4, target_modules=targets)


@pytest.mark.parametrize("kind", [*MAMBA_2, *MAMBA])
def test_every_adapter_of_all_linear_gets_a_gradient_from_fused_kernels(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = with_kernels(monkeypatch, kind)
    gradients = backward(with_adapters(FAMILIES[kind].model(), lora()))
    assert called
    assert not [name for name, found in gradients.items() if found is None]
    # At its start B is 0, so only B has gradients other than 0.
    assert not [name for name, found in gradients.items() if "lora_B" in name and not found.any()]  # type: ignore[union-attr]
    assert [name for name in gradients if "in_proj" in name]
    assert not [name for name in gradients if "out_proj" in name]


@pytest.mark.parametrize("kind", ["bamba", "granitemoehybrid", "zamba2"])
def test_an_adapter_at_what_kernels_read_would_not_train_and_plain_peft_allows_it(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = with_kernels(monkeypatch, kind)
    config = LoraConfig(task_type="CAUSAL_LM", r=2, target_modules=["in_proj", "out_proj"])
    gradients = backward(get_peft_model(FAMILIES[kind].model(), config))
    assert called
    untrained = {name for name, found in gradients.items() if found is None}
    assert untrained == {name for name in gradients if "out_proj" in name} != set()


@pytest.mark.parametrize("kind", ["bamba", "falcon_h1", "mamba"])
def test_what_kernels_read_is_no_packed_matrix_in_a_base_in_four_bits(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = with_kernels(monkeypatch, kind)
    FAMILIES[kind].model().save_pretrained(tmp_path)
    settings = TrainingSettings(precision="fp32")
    model = load_base(tmp_path, settings, full=False, four_bit=True, choice=choose(tmp_path, "apart"))
    kinds = {name.rpartition(".")[2]: type(module).__name__ for name, module in model.named_modules()}
    assert (kinds["in_proj"], kinds["out_proj"], kinds["lm_head"]) == ("Linear4bit", "Linear", "Linear")
    called.clear()
    gradients = backward(with_adapters(model, lora()))
    assert called
    assert not [name for name, found in gradients.items() if found is None]


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        *((kind, {"out_proj"}) for kind in MAMBA_2),
        *((kind, {"x_proj", "dt_proj", "out_proj"}) for kind in MAMBA),
        # Of what fused kernels read, these call all, or all but one.
        ("zamba", set()),
        ("jamba", {"dt_proj"}),
        ("lfm2", set()),
        ("qwen3_next", set()),
    ],
)
def test_what_a_recipe_names_is_refused_if_its_adapter_would_not_train(kind: str, read: set[str]) -> None:
    model = (FAMILIES | PLACED)[kind].model()
    assert {name.rpartition(".")[2] for name in read_not_called(model)} == read
    there = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    for name in there & {"x_proj", "dt_proj", "out_proj"}:
        if name in read:
            with pytest.raises(BadRecipe, match=f"{name} would not train"):
                require_targets(model, lora((name, "in_proj")))
        else:
            require_targets(model, lora((name,)))
