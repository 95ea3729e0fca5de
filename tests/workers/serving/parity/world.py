"""An evaluated adapter, the embedded server for it, and routers and servers with one fault each."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors.torch import load_file, save_file

from ft_assets.workers.evals.chat_prompts import ChatPrompts
from ft_assets.workers.serving.parity.asked_prompts import Evaluated, Render
from ft_assets.workers.serving.parity.check import check_parity
from ft_assets.workers.serving.parity.report import ParityReport
from ft_assets.workers.serving.parity.settings import ServerSettings
from ft_assets.workers.suites.suites import TASK_FILE
from ft_assets.workers.templates.source import own_template
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.serving.server import Piece, Sampling, Server
from tests.fake_base import make_fake_base
from tests.workers.evals.safety_world import write_safety_suite
from tests.workers.evals.world import parquet, rows
from tests.workers.serving.world import BASE, Served, make_adapter, make_engine

NAME = "acme.things.tiny@0123456789abcdef"
OLD = "acme.things.tiny@fedcba9876543210"
FLOAT32 = ServerSettings(engine="embedded", dtype="float32")


@dataclass(frozen=True)
class World:
    """``evaluated`` adapter, which a server with ``settings`` has as ``name``, and the line's one before it, OLD."""

    evaluated: Evaluated
    old: Path
    name: str = NAME
    settings: ServerSettings = FLOAT32

    @classmethod
    def make(cls, folder: Path, base: Path | None = None, *, std: float = 0.3) -> "World":
        """A world below ``folder``, of a tiny base unless one is given; ``std`` is of the adapters' weights."""
        base = base or make_fake_base(folder / "base")
        (folder / "holdout.parquet").write_bytes(parquet(rows(40)))
        suite = write_safety_suite(folder / "suite", counts=(20, 20))
        (suite / "care.yaml").rename(suite / TASK_FILE)
        evaluated = Evaluated(
            base=base,
            adapter=make_adapter(folder / "new", base, seed=1, std=std),
            chat_template=_other_template(base),
            holdout=folder / "holdout.parquet",
            suites={"care.v1": suite},
            max_new_tokens=12,
        )
        return cls(evaluated, old=make_adapter(folder / "old", base, seed=2, std=std))

    def router(self, *, own_template: bool = True) -> Render:
        """A router that renders the adapter's template, or the base's."""
        base, template = self.evaluated.base, self.evaluated.chat_template
        rows = ChatPrompts(base, ChatTokenizer.load(base), template if own_template else None)
        return lambda messages: rows.prompt(messages, "request")

    def check(self, server: Server, render: Render | None = None, **changes: Any) -> ParityReport:
        """Check the adapter; ``changes`` replace arguments of ``check_parity``."""
        asked = {"base": BASE, "evaluated": self.evaluated, "settings": self.settings, "prompts": 24, **changes}
        return check_parity(server, self.name, render=render or self.router(), **asked)

    def perturbed_base(self, folder: Path, by: float = 1e-3) -> Path:
        """Another revision of the base: each weight about ``by`` of itself away."""
        shutil.copytree(self.evaluated.base, folder)
        random = torch.Generator().manual_seed(3)
        weights = {
            name: value.float() * (1 + by * torch.randn(value.shape, generator=random))
            for name, value in load_file(folder / "model.safetensors").items()
        }
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        return folder

    def unscaled_adapter(self, folder: Path) -> Path:
        """The same adapter for a server that forgets alpha / r."""
        shutil.copytree(self.evaluated.adapter, folder)
        path = folder / "adapter_config.json"
        config = json.loads(path.read_text())
        path.write_text(json.dumps({**config, "lora_alpha": config["r"]}))
        return folder


@dataclass
class Changed:
    """A server that answers with other models than requested, or to other prompts."""

    server: Server
    models: Mapping[str, str] = field(default_factory=dict)
    prompt: Callable[[Sequence[int]], Sequence[int]] = lambda ids: ids
    answer: Callable[[Piece], Piece] = lambda piece: piece

    def complete(self, model: str, prompt: Sequence[int], sampling: Sampling) -> Piece:
        return self.answer(self.server.complete(self.models.get(model, model), self.prompt(prompt), sampling))


def without_likeliest(piece: Piece) -> Piece:
    """A server that gives no log-probabilities."""
    return replace(piece, tokens=tuple(replace(token, top={}, logprob=None) for token in piece.tokens))


def _other_template(base: Path) -> str:
    """A recipe's template: the base's, with one beginning token and words before it."""
    return "{{- bos_token + 'you answer shortly' -}}" + (own_template(base) or "").replace("{{- bos_token }}", "")


class Asked(Protocol):
    """A good server of a world."""

    @property
    def client(self) -> Server: ...


Fault = Callable[[World, Asked, Path], ParityReport]
"""The check of a world with the fault, given its good server and an empty folder."""


@contextmanager
def serving(base: Path, adapters: dict[str, Path], dtype: torch.dtype = torch.float32) -> Iterator[Served]:
    """The embedded server of a base with adapters by name."""
    served = Served(make_engine(base, dtype=dtype))
    try:
        for name, folder in adapters.items():
            served.client.load(name, folder)
        yield served
    finally:
        served.close()


def _bases_template(world: World, served: Asked, folder: Path) -> ParityReport:
    return world.check(served.client, world.router(own_template=False))


def _router_begins_twice(world: World, served: Asked, folder: Path) -> ParityReport:
    render = world.router()
    return world.check(served.client, lambda messages: _twice(render(messages)))


def _server_begins_twice(world: World, served: Asked, folder: Path) -> ParityReport:
    return world.check(Changed(served.client, prompt=_twice))


def _twice(ids: Sequence[int]) -> list[int]:
    return [ids[0], *ids]


def _another_revision(world: World, served: Asked, folder: Path) -> ParityReport:
    with serving(world.perturbed_base(folder / "base"), {world.name: world.evaluated.adapter}) as other:
        return world.check(other.client)


def _lost_scaling(world: World, served: Asked, folder: Path) -> ParityReport:
    with serving(world.evaluated.base, {world.name: world.unscaled_adapter(folder / "adapter")}) as other:
        return world.check(other.client)


def _no_adapter(world: World, served: Asked, folder: Path) -> ParityReport:
    return world.check(Changed(served.client, models={world.name: BASE}))


def _stale_cache(world: World, served: Asked, folder: Path) -> ParityReport:
    return world.check(Changed(served.client, models={world.name: OLD}))


ANYWHERE: dict[str, Fault] = {
    "the base's chat template": _bases_template,
    "a beginning token twice, by the router": _router_begins_twice,
    "a beginning token twice, by the server": _server_begins_twice,
    "the adapter is not loaded": _no_adapter,
}
"""Those of any kind of server."""
FAULTS: dict[str, Fault] = {
    **ANYWHERE,
    "another revision of the base": _another_revision,
    "scaling lost": _lost_scaling,
    "answers from the adapter before it": _stale_cache,
}
