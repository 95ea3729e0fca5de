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
    """Each adapter that stands in a stage is on each server of its base. One that nobody wants goes after ``grace_s``
    seconds in which nobody wanted it or asked for it (``idle_s``), so that requests under way and a change of mind find
    it; one that is ``banned`` goes at once."""
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
    """What stands in a stage and is not on a server of its base; production first."""
    for each in sorted(wanted, key=lambda each: "production" not in each.stages):
        for endpoint, there in served.items():
            if each.stages and endpoint.base == each.model.base and each.model.name not in there:
                yield each.model, endpoint
