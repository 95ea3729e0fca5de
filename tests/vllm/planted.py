"""Faults of a real vLLM, and of what is before it, that the gate has to find."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ft_assets.workers.serving.parity.report import ParityReport
from tests.vllm.running import RealVllm
from tests.workers.serving.parity.world import ANYWHERE, Changed, World

Fault = Callable[[World, RealVllm, Path], ParityReport]


def _another_revision(world: World, vllm: RealVllm, folder: Path) -> ParityReport:
    # A vLLM of it would take a minute to start: it has the right one, and another one was evaluated.
    # What is smaller than a place of bfloat16, 2^-8, is lost in the noise of its rounding.
    by = 1e-3 if vllm.dtype == "float32" else 3e-2
    evaluated = replace(world.evaluated, base=world.perturbed_base(folder / "base", by))
    return replace(world, evaluated=evaluated).check(vllm.client)


def _lost_scaling(world: World, vllm: RealVllm, folder: Path) -> ParityReport:
    name = f"unscaled-{vllm.dtype}"
    vllm.client.load(name, world.unscaled_adapter(folder / "adapter"))
    return world.check(Changed(vllm.client, models={world.name: name}))


def _stale_prefix_cache(world: World, vllm: RealVllm, folder: Path) -> ParityReport:
    name, place = f"again-{vllm.dtype}", folder / "adapter"
    again = Changed(vllm.client, models={world.name: name})
    shutil.copytree(world.old, place)
    vllm.client.load(name, place)
    world.check(again)
    vllm.client.unload(name)
    shutil.rmtree(place)
    shutil.copytree(world.evaluated.adapter, place)
    vllm.client.load(name, place)
    return world.check(again)


FAULTS: dict[str, Fault] = {
    **ANYWHERE,
    "another revision of the base": _another_revision,
    "scaling lost": _lost_scaling,
    "keys and values of the adapter before it": _stale_prefix_cache,
}
