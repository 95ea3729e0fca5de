"""PiSSA: adapters begin with the largest part of each weight, and the base keeps all of it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from peft.tuners.lora.layer import LoraLayer
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from ft_assets.settings.recipe.training import LoraSettings
from ft_assets.workers.training.model import with_adapters
from ft_assets.workers.training.train import train
from ft_assets.workers.training.variants import pissa
from ft_assets.workers.training.variants.fused_lora import join_adapters
from ft_resources.errors import BadRecipe
from tests.fake_base import make_fake_base
from tests.workers.training.test_train import assert_same, run_killed_at
from tests.workers.training.variants.kinds import make_kind


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
