"""A store with a pair on a GPU whose inputs are published with facts that nobody computed."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ft_assets.control import identity
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.settings.gpus import GIB
from ft_assets.workers.datasets.columns import TURN
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.attempts import Attempt
from ft_resources.launchers.room import Room
from ft_resources.store import Store
from ft_resources.work import WorkRequest
from tests.e2e.project import Project, make_project
from tests.fake_base import make_fake_base
from tests.made import leave, spec_of
from tests.workers.packs.estimate.made import LLAMA_3_8B

DATASET = "acme.colours.v1"
# An 8B model on 20 million tokens: some minutes of an H100.
PACK = {"tokens": 20_000_000, "windows": 5_000, "learned_tokens": 5_000_000, "documents": 40_000}


def room(memory: float = 1e4, disk: float = 1e4) -> Room:
    """So many GiB of each."""
    return Room(memory=memory * GIB, disk=disk * GIB, more_memory="buy more", more_disk="free some")


@dataclass(frozen=True, kw_only=True)
class World:
    project: Project
    folder: Path

    @property
    def store(self) -> Store:
        return self.project.store

    @property
    def artifacts(self) -> Artifacts:
        return Artifacts(self.store)

    def recipe(
        self,
        key: str = "large.v1",
        *,
        rank: int = 16,
        max_length: int = 4096,
        micro_batch_size: int = 1,
        variant: str = "lora",
        packing: str = "auto",
        recompute: str = "off",
        **hardware: Any,
    ) -> str:
        """A registered recipe: one epoch of LoRA on ``hardware``, by default one H100."""
        path = self.project.recipe(
            key,
            training={
                "max_steps": None,
                "epochs": 1,
                "global_batch_size": 16,
                "micro_batch_size": micro_batch_size,
                "learning_rate": 1e-4,
                "recompute": recompute,
            },
            packing={"max_length": max_length, "mode": packing},
            lora={"rank": rank},
            variant=variant,
            hardware={"gpus": 1, "gpu_type": "H100", **hardware},
        )
        return register_recipe(self.store, path, actor="ann").key

    def make(self, request: WorkRequest, facts: dict[str, Any], **files: bytes) -> Artifact:
        named = {name.replace("__", "."): data for name, data in files.items()}
        return leave(self.artifacts, request, {"result.json": b"{}", **named}, facts)

    def prepare(self, recipe: str, *, config: dict[str, Any] = LLAMA_3_8B, form: str = "chat") -> None:
        """Dataset, base (an 8B Llama by its config) and baseline of the pair, unless they are there."""
        artifacts, dataset = self.artifacts, identity.dataset_request(self.artifacts, DATASET)
        if artifacts.find(dataset.address) is None:
            facts: dict[str, Any] = {"form": form, "held": [], "rows": {"train": 128, "validation": 16, "holdout": 16}}
            self.make(dataset, facts, train__parquet=train_rows())
        base = identity.base_model_request(artifacts, recipe)
        if artifacts.find(base.address) is None:
            tokenizer = (self.project.folder / "base" / "tokenizer.json").read_bytes()
            facts = {"tokenizer_digest": "00", "template_digest": "11", "parameters": 8_030_261_248}
            self.make(base, facts, config__json=json.dumps(config).encode(), tokenizer__json=tokenizer)
        baseline = identity.baseline_report_request(artifacts, recipe)
        if artifacts.find(baseline.address) is None:
            self.make(baseline, {})

    def pack(self, recipe: str, **facts: Any) -> Artifact:
        self.prepare(recipe)
        request = identity.token_pack_request(self.artifacts, DATASET, recipe)
        return self.artifacts.find(request.address) or self.make(request, PACK | facts)

    def attempt(self, recipe: str) -> Attempt:
        """A claimed attempt at the pair's checkpoint, with its spec."""
        request = identity.checkpoint_request(self.artifacts, DATASET, recipe)
        attempt = Attempt(self.store, request.address, 1)
        attempt.claim("ann")
        attempt.write_spec(spec_of(self.store, request))
        return attempt

    def trained(self, recipe: str, tokens_per_s: float, *, with_attempt: bool = True) -> Artifact:
        self.pack(recipe)
        if with_attempt:
            self.attempt(recipe)
        request = identity.checkpoint_request(self.artifacts, DATASET, recipe)
        return self.make(request, {"tokens_per_s": tokens_per_s})


def make_world(folder: Path) -> None:
    """A project in ``folder`` with the dataset version added, and nothing prepared."""
    project = make_project(folder / "project")
    make_fake_base(project.folder / "base", context=8192)
    file = project.dataset()
    add_dataset_version(project.store, file, tenant="acme", name="colours", policy=DatasetPolicy(), actor="ann")


def world_in(folder: Path) -> World:
    """The world that lies in ``folder``, also where it was copied there."""
    project = Project(folder=folder / "project", store_url=f"file://{folder}/project/store")
    return World(project=project, folder=folder / "made")


def train_rows(rows: int = 128) -> bytes:
    """Conversations of two turns, 21 and 17 characters long."""

    def turn(role: str, content: str) -> dict[str, str]:
        return {"role": role, "content": content, "tool_calls": "", "tool_call_id": "", "name": ""}

    messages = [[turn("user", "what colour is thing?"), turn("assistant", "it is a red thing")] for _ in range(rows)]
    table = pa.table({"messages": pa.array(messages, pa.list_(TURN)), "text": [""] * rows})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


Tenants = Callable[[str], object]
