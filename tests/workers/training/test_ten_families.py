"""Ten families take an optimizer step at each change; all of them take more in ``test_families.py``."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ft_assets.settings.catalogue.families import TEN
from ft_assets.workers.training.train import train
from tests.workers.training.families import FAMILIES, family_bench
from tests.workers.training.test_families import losses, plain, plain_loss


@pytest.mark.parametrize("kind", TEN)
def test_a_step_has_the_loss_of_the_base_and_moves_every_adapter(kind: str, tmp_path: Path) -> None:
    bench = family_bench(tmp_path, FAMILIES[kind], global_batch_size=1, micro_batch_size=1)
    bench.params["training"]["max_steps"] = 1
    result = train(bench.context())
    with torch.no_grad():
        model = plain(bench.inputs["base"].folder(tmp_path / "plain"), kind)
        expected = float(plain_loss(model, bench.pack, next(iter(bench.order.read())).windows))
    assert losses(result) == pytest.approx([expected], rel=1e-5)
    adapter = load_file(result.folder / "final" / "adapter_model.safetensors")
    moved = {name: bool(weight.any()) for name, weight in adapter.items() if "lora_B" in name}
    assert moved
    assert all(moved.values())
