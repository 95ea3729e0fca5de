"""What the router costs an engine: answers a second through it beside the engine's own, and its processor time.

Rounds through the router and directly take turns, as the machine's load changes, and both are asked by the same client:
one event loop of its own process, as threads that wait for each other would be what is measured.
"""

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import psutil

_ROUNDS = 7
_CPU_ASKS = 50
# The first answers of a round are not counted, nor is its end: clients that start at once fill the engine only when the
# last of their requests has passed the router, and a round that ends by itself empties it again.
_RAMP_S, _COUNTED_S = 1.5, 5.0


@dataclass(frozen=True, kw_only=True)
class Door:
    """Where completions are asked for, and as what."""

    url: str
    key: str
    model: str


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Answers a second of each round: through the router, and directly just before or after it."""

    ours: Sequence[float]
    theirs: Sequence[float]

    @property
    def ratio(self) -> float:
        """The median of the rounds' own: the machine's load changes from minute to minute, and less within a round."""
        return statistics.median(ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True))


def rates(router: Door, engine: Door, *, clients: int, body: dict[str, Any]) -> Rates:
    """What so many clients get, each of which waits for its answer before it asks again."""

    async def measured() -> Rates:
        ours: list[float] = []
        theirs: list[float] = []
        async with _session() as session:
            for number in range(_ROUNDS + 1):
                turns = [(router, ours), (engine, theirs)]
                for door, found in turns if number % 2 else turns[::-1]:
                    rate = await _rate(session, door, clients, body)
                    # The first one opens connections.
                    if number:
                        found.append(rate)
        return Rates(ours=ours, theirs=theirs)

    return asyncio.run(measured())


def cpu_ms(router: Door, process: psutil.Process, body: dict[str, Any]) -> float:
    """Milliseconds of processor time that one answer costs ``process``, the median of rounds with one client."""

    async def measured() -> float:
        found: list[float] = []
        async with _session() as session:
            for _ in range(_ROUNDS + 1):
                before = _cpu_s(process)
                for _ in range(_CPU_ASKS):
                    await _ask(session, router, body)
                found.append((_cpu_s(process) - before) * 1000 / _CPU_ASKS)
        return statistics.median(found[1:])

    return asyncio.run(measured())


async def _rate(session: aiohttp.ClientSession, door: Door, clients: int, body: dict[str, Any]) -> float:
    began = time.monotonic()
    counted = 0

    async def client() -> None:
        nonlocal counted
        while time.monotonic() - began < _RAMP_S + _COUNTED_S:
            await _ask(session, door, body)
            counted += _RAMP_S <= time.monotonic() - began < _RAMP_S + _COUNTED_S

    await asyncio.gather(*(client() for _ in range(clients)))
    return counted / _COUNTED_S


async def _ask(session: aiohttp.ClientSession, door: Door, body: dict[str, Any]) -> None:
    headers = {"authorization": f"Bearer {door.key}"}
    async with session.post(door.url, json={**body, "model": door.model}, headers=headers) as answer:
        answer.raise_for_status()
        await answer.read()


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=3))


def _cpu_s(process: psutil.Process) -> float:
    found = process.cpu_times()
    return float(found.user + found.system)
