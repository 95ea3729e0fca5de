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


def rates(router: Door, engine: Door, *, clients: int, asks: int, body: dict[str, Any]) -> Rates:
    """What so many clients get, each of which asks ``asks`` times a round and waits for each answer."""

    async def measured() -> Rates:
        ours: list[float] = []
        theirs: list[float] = []
        async with _session() as session:
            for number in range(_ROUNDS + 1):
                turns = [(router, ours), (engine, theirs)]
                for door, found in turns if number % 2 else turns[::-1]:
                    rate = await _rate(session, door, clients, asks, body)
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
                await _rate(session, router, 1, _CPU_ASKS, body)
                found.append((_cpu_s(process) - before) * 1000 / _CPU_ASKS)
        return statistics.median(found[1:])

    return asyncio.run(measured())


async def _rate(session: aiohttp.ClientSession, door: Door, clients: int, asks: int, body: dict[str, Any]) -> float:
    async def client() -> None:
        for _ in range(asks):
            await _ask(session, door, body)

    began = time.monotonic()
    await asyncio.gather(*(client() for _ in range(clients)))
    return clients * asks / (time.monotonic() - began)


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
