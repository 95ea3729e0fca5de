"""The stages from the launch of a training's attempt to its first step.

Three records of the attempt tell of them. ``start.json`` is the worker's: when it began each phase, and its first step.
``fetched.json`` is that of the process that fetches models before the worker starts: how many bytes came from the
store. ``place.json`` is the cluster's, and there once the attempt has ended: before that, and on one machine, all up to
the worker's first line is one stage.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ft_resources.attempts import FETCHED, START, Attempt, is_moment

MOMENTS = ("admitted", "scheduled", "pulled", "fetched")
"""Of ``place.json``: the end of the wait in the queue, for a node, for the image, and for the models."""
_WORDS = ("queue", "node", "image", "models")
_PHASE, _MOST_PHASES, _MOST_BYTES = re.compile(r"[\w ,'-]{1,80}"), 32, 2**63


@dataclass(frozen=True, kw_only=True, slots=True)
class Wait:
    """A stage: its name, how long it took in seconds, and what it fetched from the store in bytes, if it says so."""

    name: str
    seconds: float
    fetched: int | None = None


def waits_of(attempt: Attempt) -> tuple[Wait, ...]:
    """The stages in order; none before the first step."""
    start = _start(attempt)
    launch = attempt.launch()
    if start is None or launch is None:
        return ()
    place = attempt.place() or {}
    ended = [*_before_worker(place.get("moments") or {}, float(start["since"])), *_in_worker(start)]
    fetched, stages = _fetched(attempt), list[Wait]()
    # The cluster's times are whole seconds by another clock than the worker's: no stage may end before it begins.
    last = float(place.get("queued_at") or launch["at"])
    for name, at in ended:
        stages.append(Wait(name=name, seconds=max(0.0, at - last), fetched=fetched if name == "models" else None))
        last = max(last, at)
    return tuple(stages)


def _before_worker(moments: dict[str, Any], since: float) -> Iterator[tuple[str, float]]:
    known = [(word, moments[name]) for word, name in zip(_WORDS, MOMENTS, strict=True) if is_moment(moments.get(name))]
    yield from known
    yield ("worker" if known else "start"), since


def _in_worker(start: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Each phase ends where the next begins, the last with the first step."""
    began = sorted(start["phases"].items(), key=lambda phase: phase[1])
    for (name, _), (_, ended) in pairwise(began):
        yield name, ended
    yield "first step", float(start["first_step"])


def _start(attempt: Attempt) -> dict[str, Any] | None:
    """Workers are not trusted: a record of another form counts as none. Names of phases are shown on terminals and
    pages."""
    raw = attempt.record(START)
    if not isinstance(raw, dict) or not isinstance(raw.get("phases"), dict) or len(raw["phases"]) > _MOST_PHASES:
        return None
    if not all(map(_PHASE.fullmatch, raw["phases"])):
        return None
    times = [raw.get("since"), raw.get("first_step"), *raw["phases"].values()]
    return raw if all(map(is_moment, times)) else None


def _fetched(attempt: Attempt) -> int | None:
    raw = attempt.record(FETCHED)
    found = raw.get("bytes") if isinstance(raw, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < _MOST_BYTES else None
