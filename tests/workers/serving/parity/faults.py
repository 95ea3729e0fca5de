"""Each fault of a server or a router that the gate has to find."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from ft_assets.workers.serving.parity.report import ParityReport
from tests.workers.serving.parity.world import BOS, NAME, OLD, Changed, World
from tests.workers.serving.served import Served
from tests.workers.serving.world import BASE, make_engine

Fault = Callable[[World, Served, Path], ParityReport]
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


def _bases_template(world: World, served: Served, folder: Path) -> ParityReport:
    return world.check(served.client, world.router(own_template=False))


def _router_begins_twice(world: World, served: Served, folder: Path) -> ParityReport:
    render = world.router()
    return world.check(served.client, lambda messages: [BOS, *render(messages)])


def _server_begins_twice(world: World, served: Served, folder: Path) -> ParityReport:
    return world.check(Changed(served.client, prompt=lambda ids: [BOS, *ids]))


def _another_revision(world: World, served: Served, folder: Path) -> ParityReport:
    with serving(world.perturbed_base(folder / "base"), {NAME: world.evaluated.adapter}) as other:
        return world.check(other.client)


def _lost_scaling(world: World, served: Served, folder: Path) -> ParityReport:
    with serving(world.evaluated.base, {NAME: world.unscaled_adapter(folder / "adapter")}) as other:
        return world.check(other.client)


def _no_adapter(world: World, served: Served, folder: Path) -> ParityReport:
    return world.check(Changed(served.client, models={NAME: BASE}))


def _stale_cache(world: World, served: Served, folder: Path) -> ParityReport:
    return world.check(Changed(served.client, models={NAME: OLD}))


FAULTS: dict[str, Fault] = {
    "the base's chat template": _bases_template,
    "a beginning token twice, by the router": _router_begins_twice,
    "a beginning token twice, by the server": _server_begins_twice,
    "another revision of the base": _another_revision,
    "scaling lost": _lost_scaling,
    "the adapter is not loaded": _no_adapter,
    "answers from the adapter before it": _stale_cache,
}
