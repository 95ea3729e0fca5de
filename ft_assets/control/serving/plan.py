"""What to load where, and what to unload. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ft_assets.control.serving.wanted import Wanted
from ft_resources.serving.fleet import Endpoint, ServedModel

Served = Mapping[Endpoint, Collection[str]]
"""The names of adapters that each server says it serves."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The difference between what is served and what should be."""

    load: tuple[tuple[ServedModel, Endpoint], ...] = ()
    unload: tuple[tuple[str, Endpoint], ...] = ()


def plan(
    wanted: Sequence[Wanted], banned: Collection[str], served: Served, idle_s: Mapping[str, float], grace_s: float
) -> Plan:
    """Every adapter in a stage is loaded on every server of its base. An unwanted one is unloaded once it was neither
    wanted nor requested for ``grace_s`` seconds (``idle_s``), so that requests under way and a quick rollback still
    find it; a ``banned`` one is unloaded at once."""
    names = {each.model.name for each in wanted}
    return Plan(
        load=tuple(missing(wanted, served)),
        unload=tuple(
            (name, endpoint)
            for endpoint, there in served.items()
            for name in sorted(there)
            if name not in names and (name in banned or idle_s.get(name, 0.0) > grace_s)
        ),
    )


def missing(wanted: Sequence[Wanted], served: Served) -> Iterator[tuple[ServedModel, Endpoint]]:
    """Adapters in a stage that are missing on a server of their base; production first."""
    for each in sorted(wanted, key=lambda each: "production" not in each.stages):
        for endpoint, there in served.items():
            if each.stages and endpoint.base == each.model.base and each.model.name not in there:
                yield each.model, endpoint
