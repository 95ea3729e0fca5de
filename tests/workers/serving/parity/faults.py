"""The faults of a server or a router that the gate must find."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import torch

from ft_assets.workers.serving.parity.report import ParityReport
from ft_resources.serving.server import Server
from tests.workers.serving.parity.world import OLD, Changed, World
from tests.workers.serving.served import Served
from tests.workers.serving.world import BASE, make_engine


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
