"""Turns the result of one look into a ``ServingStatus``."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

from ft_assets.control.serving.plan import Served
from ft_assets.control.serving.standing import Standing
from ft_assets.control.serving.status import LineServed, ServerShown, ServingStatus
from ft_assets.control.serving.wanted import Wanted
from ft_resources.serving.servers import ServerState

DRIFT_S = 60.0
"""Seconds after which a difference between the promotion log and the servers is drift."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What was seen.

    Args:
        unloading: names that servers were told to serve no longer.
        troubles: by server and name, why an adapter could not be loaded.
    """

    standing: Standing
    states: Sequence[ServerState]
    served: Served
    unloading: frozenset[str]
    troubles: Mapping[tuple[str, str], str]


class Since:
    """For how long each of some items has been present."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began: dict[Hashable, float] = {}

    def longer(self, things: Collection[Hashable], seconds: float) -> set[Hashable]:
        """Those of ``things`` that were present at every call for ``seconds``."""
        now = self._clock()
        self._began = {each: self._began.get(each, now) for each in things}
        return {each for each, began in self._began.items() if now - began >= seconds}


def shown(seen: Seen, since: Since, *, at: str, process: str) -> ServingStatus:
    """The status for people."""
    lines = tuple(_line(each, stage, seen) for each in seen.standing.wanted for stage in each.stages)
    states = {state.endpoint: state for state in seen.states if state.endpoint is not None}
    missing = {(each.name, server) for each in lines for server in _lacking(each.name, each.base, seen)}
    extra = {(name, at.name) for at, names in seen.served.items() for name in names if name in seen.unloading}
    drift = since.longer([("missing", *each) for each in missing] + [("extra", *each) for each in extra], DRIFT_S)
    return ServingStatus(
        at=at,
        process=process,
        lines=tuple(sorted(lines, key=lambda each: (each.line, each.stage))),
        servers=tuple(
            ServerShown(
                name=state.name,
                base=state.base,
                state="answers" if state.endpoint in states else "away" if state.trouble else "starts",
                models=tuple(sorted(seen.served.get(state.endpoint, ()))) if state.endpoint is not None else (),
                trouble=state.trouble,
            )
            for state in seen.states
        ),
        drift=tuple(sorted(map(_words, drift))),
        trouble=_trouble(seen.standing),
    )


def _line(each: Wanted, stage: str, seen: Seen) -> LineServed:
    name = each.model.name
    lacking = _lacking(name, each.model.base, seen)
    whys = [f"{server}: {why}" for server, why in lacking.items()] or [seen.standing.troubles.get(each.model.line, "")]
    return LineServed(
        line=each.model.line,
        stage=stage,
        adapter=each.model.address,
        name=name,
        base=each.model.base,
        servers=tuple(at.name for at, names in seen.served.items() if name in names),
        trouble="; ".join(filter(None, whys)),
    )


def _lacking(name: str, base: str, seen: Seen) -> dict[str, str]:
    """Servers of a base that lack an adapter, and why."""
    of_base = [state for state in seen.states if state.base == base]
    if not of_base:
        return {"any server": "no server has its base"}
    return {
        state.name: state.trouble or "it starts"
        if state.endpoint is None
        else seen.troubles.get((state.name, name), "") or "loading"
        for state in of_base
        if state.endpoint is None or name not in seen.served.get(state.endpoint, ())
    }


def _words(difference: Hashable) -> str:
    assert isinstance(difference, tuple)
    kind, name, server = difference
    return (
        f"{name} is not on {server}, and should be"
        if kind == "missing"
        else f"{name} is on {server}, and should not be"
    )


def _trouble(standing: Standing) -> str:
    if standing.trouble:
        return f"the store cannot be read, so its last known state is served: {standing.trouble}"
    return ""
