"""Short trainings of each kind of adapter, and their results as users load them."""

from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from ft_assets.settings.recipe.training import LoraSettings
from ft_resources.worker_context import WorkResult
from tests.workers.training.conftest import Bench, make_bench

KINDS: dict[str, dict[str, Any]] = {
    "rslora": {"use_rslora": True},
    "dora": {"use_dora": True},
    "pissa": {"init": "pissa"},
    "pissa_rslora": {"init": "pissa", "use_rslora": True},
    "lora_plus": {"lora_plus_ratio": 8.0},
}


def make_kind(root: Path, kind: str, *, dropout: float = 0.0, **training: Any) -> Bench:
    """A run of nine steps, unless said otherwise, whose adapters are of ``kind``, one of ``KINDS``."""
    bench = make_bench(root, **{"epochs": 2, **training})
    bench.params["lora"] = LoraSettings(rank=4, alpha=8, dropout=dropout, **KINDS[kind]).model_dump(mode="json")
    return bench


def on_its_base(bench: Bench, folder: Path) -> Any:
    """The adapter in ``folder`` on the base as it was uploaded, by PEFT alone, in float32."""
    place = bench.inputs["base"].folder(bench.scratch / "plain")
    base = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32)
    return PeftModel.from_pretrained(base, str(folder)).eval()


def final(result: WorkResult) -> Path:
    return result.folder / "final"


def logits_of(model: Any) -> torch.Tensor:
    with torch.no_grad():
        answer: torch.Tensor = model(input_ids=torch.arange(40, 52)[None]).logits[0]
    return answer
