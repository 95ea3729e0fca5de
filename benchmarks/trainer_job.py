"""The worker's whole training, in this process: a store with the demo's base and a pack, and attempts at them."""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ft_assets.demo
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.settings.recipe.training import LoraSettings, TrainingSettings
from ft_assets.workers.training.train import train
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.canonical import digest
from ft_resources.store_marker import open_store
from ft_resources.work import WorkRequest, WorkSpec
from ft_resources.worker_context import WorkContext, WorkResult

BASE = Path(ft_assets.demo.__file__).parent / "base"
RANK, ALPHA = 16, 32
LEARNING_RATE = 1e-4


@dataclass
class Job:
    """Trainings of the demo's base on the pack in ``folder / "pack"``; ``steps_s`` says how long their steps took."""

    folder: Path
    made: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.store = open_store(str(self.folder / "store"), create=True)
        self.inputs = {
            "pack": self._publish(self.folder / "pack", "token_pack", {}),
            "base": self._publish(BASE, "base_model", {"source": "folder:base", "revision": None}),
        }

    def run(self, *, variant: str, windows: int, steps: int, save_steps: int = 1_000_000) -> WorkResult:
        """One training of ``steps`` steps of ``windows`` windows, each in one forward pass, in float32."""
        self.made += 1
        training = TrainingSettings(
            learning_rate=LEARNING_RATE,
            # Ended by max_steps.
            epochs=1_000,
            max_steps=steps,
            global_batch_size=windows,
            micro_batch_size=windows,
            precision="fp32",
            seed=self.made,
        )
        lora = LoraSettings(rank=RANK, alpha=ALPHA, dropout=0.0)
        request = WorkRequest(
            asset="checkpoint",
            tenant="acme",
            code_version=CODE_VERSIONS["checkpoint"],
            inputs={name: artifact.ref for name, artifact in self.inputs.items()},
            params={
                "method": "sft",
                "variant": variant,
                "lora": lora.model_dump(mode="json") if variant == "lora" else None,
                "training": training.model_dump(
                    mode="json", exclude={"checkpoint_every_steps", "checkpoint_every_minutes"}
                ),
                "chat_template": None,
            },
            label="benchmark",
            runtime={
                "checkpoint_every_steps": save_steps,
                "checkpoint_every_minutes": 1e6,
                "micro_batch_divisor": 1,
                "device": "cpu",
            },
        )
        spec = WorkSpec(
            asset=request.asset,
            store_url=self.store.url,
            store_layout=self.store.layout,
            address=request.address,
            attempt=1,
            identity=request.identity,
            inputs=request.inputs,
            params=request.params,
            runtime=request.runtime,
            label=request.label,
            actor="benchmark",
        )
        scratch = self.folder / f"worker-{self.made}"
        shutil.rmtree(scratch, ignore_errors=True)
        return train(WorkContext(spec, self.store, scratch))

    def _publish(self, folder: Path, asset: str, facts: dict[str, Any]) -> Artifact:
        identity = {"asset": asset, "from": folder.name}
        address = Address(tenant="acme", asset=asset, fingerprint=digest(identity))
        return Artifacts(self.store).publish(
            address, folder, writer="benchmark", identity=identity, facts=facts, actor="benchmark"
        )


def steps_s(result: WorkResult) -> list[float]:
    """Seconds of each step as the trainer's own meter saw them: all that lies between two steps, but for saves."""
    lines = (result.folder / "report" / "steps.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if "loss" in row]
    return [row["tokens"] / row["tokens_per_s"] for row in rows]
