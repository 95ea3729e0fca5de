"""Two ranks are one training: equal losses, the same data, and one fate."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from ft_assets.checkpoints.train import train
from ft_resources.worker_context import WorkResult
from tests.checkpoints.conftest import content, make_bench

SETTINGS: dict[str, Any] = {
    "dropout": 0.0,
    "epochs": 1,
    "validate_every_steps": 2,
    "global_batch_size": 5,
    "micro_batch_size": 1,
}


def losses(result: WorkResult, key: str) -> list[tuple[int, float]]:
    lines = (result.folder / "report" / "steps.jsonl").read_text().splitlines()
    return [(row["step"], row[key]) for row in map(json.loads, lines) if key in row]


@pytest.mark.parametrize("variant", ["lora", "full"])
def test_two_ranks_have_the_losses_of_one_and_its_ledger(tmp_path: Path, variant: str) -> None:
    alone = train(make_bench(tmp_path / "alone", variant=variant, **SETTINGS).context())
    bench = make_bench(tmp_path / "ranks", variant=variant, **SETTINGS)
    bench.runtime["processes"] = 2
    ranks = train(bench.context())
    assert content(alone)["ledger.jsonl"] == content(ranks)["ledger.jsonl"]
    for key in ("loss", "validation_loss", "grad_norm", "tokens", "learning_rate"):
        for one, other in zip(losses(alone, key), losses(ranks, key), strict=True):
            assert one == pytest.approx(other, rel=1e-4), key
    name = "adapter_model.safetensors" if variant == "lora" else "model.safetensors"
    mine, theirs = (load_file(result.folder / "final" / name) for result in (alone, ranks))
    assert mine.keys() == theirs.keys()
    assert all(torch.allclose(mine[name], theirs[name], atol=1e-4) for name in mine)
