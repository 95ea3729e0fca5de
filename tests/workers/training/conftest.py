"""A tiny training run: a random Llama, a pack with something to learn, and specs of attempts at it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from accelerate.utils import memory

from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.settings.recipe.training import LoraSettings, TrainingSettings
from ft_assets.workers.packs.format import Layout, Pack, PackWriter
from ft_assets.workers.packs.sampler import Order
from ft_assets.workers.training import train
from ft_assets.workers.training.distributed import launch
from ft_assets.workers.training.telemetry.report import write_pictures
from ft_resources.artifacts import EXPLAINING_FOLDERS, Address, Artifact, Artifacts
from ft_resources.canonical import digest
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from ft_resources.work import WorkRequest, WorkSpec
from ft_resources.worker_context import WorkContext, WorkResult
from tests.fake_base import VOCABULARY, make_fake_base
from tests.made import spec_of
from tests.once import made_once, session_pid, shared_folder
from tests.workers.packs.made import made_spool
from tests.workers.training.forks import Forks

TENANT = "acme"


def write_pack(
    folder: Path,
    split: str,
    documents: int,
    *,
    seed: int = 0,
    longest: int = 24,
    taught: bool = True,
    weights: Sequence[float] | None = None,
) -> Pack:
    """A split whose documents count upwards, learned in their second half (or nowhere), three or four to a window."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    lengths = random.integers(6, longest + 1, documents)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    first = np.repeat(random.integers(10, VOCABULARY - longest, documents), lengths)
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    ids = (first + within).astype(np.int32)
    learned = (within >= np.repeat(lengths // 2, lengths)) & taught
    spool = made_spool(
        folder.parent / f"spool-{folder.name}-{split}",
        lengths,
        input_ids=ids,
        learned=learned,
        ids=[digest([split, seed, index]) for index in range(documents)],
        weights=weights,
    )
    order = random.permutation(documents).astype(np.int64)
    ends = np.unique(np.append(np.cumsum(random.integers(3, 5, documents)), documents))
    layout = Layout(order=order, window_offsets=np.append(0, ends[ends <= documents]).astype(np.int64))
    PackWriter(folder, split, "chat", 4 * longest).write(spool, layout)
    return Pack.open(folder, split)


@dataclass
class Bench:
    """A store with the inputs of one run; ``spec`` describes an attempt at it, ``context`` is a fresh worker's."""

    store: Store
    scratch: Path
    inputs: dict[str, Artifact]
    params: dict[str, Any]
    runtime: dict[str, Any] = field(default_factory=dict)
    tenant: str = TENANT
    made: int = 0

    @property
    def request(self) -> WorkRequest:
        return WorkRequest(
            asset="checkpoint",
            tenant=self.tenant,
            code_version=CODE_VERSIONS["checkpoint"],
            inputs={name: artifact.ref for name, artifact in self.inputs.items()},
            params=self.params,
            label="acme.counting.v1|tiny.v1",
            runtime=self.runtime,
        )

    def spec(self, attempt: int = 1) -> WorkSpec:
        request = self.request
        return spec_of(self.store, request, attempt)

    def context(self, attempt: int = 1) -> WorkContext:
        self.made += 1
        return WorkContext(self.spec(attempt), self.store, self.scratch / f"worker-{self.made}")

    @property
    def pack(self) -> Pack:
        return Pack.open(self.inputs["pack"].folder(self.scratch / "pack"), "train")

    @property
    def order(self) -> Order:
        training = self.params["training"]
        return Order(
            windows=len(self.pack),
            global_batch=training["global_batch_size"],
            epochs=training["epochs"],
            seed=training["seed"],
            max_steps=training["max_steps"],
        )


def publish(store: Store, folder: Path, asset: str, tenant: str, facts: dict[str, Any] | None = None) -> Artifact:
    identity = {"asset": asset, "from": str(folder.name)}
    address = Address(tenant=tenant, asset=asset, fingerprint=digest(identity))
    return Artifacts(store).publish(address, folder, writer="w1", identity=identity, facts=facts, actor="test")


def make_bench(
    root: Path,
    *,
    variant: str = "lora",
    documents: int = 60,
    dropout: float = 0.1,
    tenant: str = TENANT,
    **training: Any,
) -> Bench:
    store = open_store(str(root / "store"), create=True)
    write_pack(root / "pack", "train", documents)
    write_pack(root / "pack", "validation", 12, seed=1)
    base = make_fake_base(root / "base")
    settings = {
        "learning_rate": 3e-3,
        "epochs": 2,
        "global_batch_size": 4,
        "micro_batch_size": 2,
        "precision": "fp32",
        **training,
    }
    lora = LoraSettings(rank=4, alpha=8, dropout=dropout)
    cadences = {"checkpoint_every_steps", "checkpoint_every_minutes"}
    return Bench(
        store=store,
        scratch=root / "scratch",
        tenant=tenant,
        inputs={
            "pack": publish(store, root / "pack", "token_pack", tenant),
            "base": publish(store, base, "base_model", "shared", {"source": "hub:acme/tiny", "revision": "abc123"}),
        },
        params={
            "method": "sft",
            "variant": variant,
            "lora": None if variant == "full" else lora.model_dump(mode="json"),
            "training": TrainingSettings(**settings).model_dump(mode="json", exclude=cadences),
            "chat_template": None,
        },
        runtime={
            "checkpoint_every_steps": 3,
            "checkpoint_every_minutes": 10.0,
            "micro_batch_divisor": 1,
            "device": "cpu",
        },
    )


def content(result: WorkResult) -> dict[str, bytes]:
    """Every file that decides the artifact's content digest."""
    files = {str(path.relative_to(result.folder)): path for path in result.folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if not name.startswith(EXPLAINING_FOLDERS)}


def step_rows(result: WorkResult) -> list[dict[str, Any]]:
    """All rows of the training's report: of steps, and of validations."""
    return [json.loads(line) for line in (result.folder / "report" / "steps.jsonl").read_text().splitlines()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Forks:
    """The process that forks workers and ranks, one for the session: it takes ten seconds to start."""
    place = shared_folder(tmp_path_factory) / "forks"
    return Forks(made_once(place, lambda folder: Forks(folder).begin(session_pid())))


@pytest.fixture
def plant(forks: Forks, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let ranks be forked instead of started by torchrun, and call a function of ``planted.py`` first."""

    def planted(name: str = "") -> None:
        prepare = [f"tests.workers.training.planted:{name}"] if name else []
        monkeypatch.setattr(launch, "_command", forks.ranks(*prepare))

    return planted


@pytest.fixture
def quick(plant: Callable[..., None]) -> None:
    """Ranks are forked instead of started by torchrun."""
    plant()


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs draw no curves and let no garbage be collected at their end: two thirds of the time of a tiny training."""
    monkeypatch.setattr(train, "write_pictures", lambda *_: None)
    # Its own name for the module: what others collect is collected.
    monkeypatch.setattr(memory, "gc", SimpleNamespace(collect=lambda: 0))


@pytest.fixture
def pictures(_no_pictures: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs draw their curves."""
    monkeypatch.setattr(train, "write_pictures", write_pictures)
