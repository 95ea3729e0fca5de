"""Attempts at an artifact: create-only claims, the heartbeat, and how each one ended.

Whoever creates ``claim.json`` of the next number launches that attempt; everybody else attaches to it. All state is
in the store, so an orchestrator that died is replaced by any other that can read the store.
"""

import json
import time
from dataclasses import dataclass
from typing import Any

from ft_resources.artifacts import Address
from ft_resources.outcomes import Outcome
from ft_resources.store import Store
from ft_resources.work import WorkSpec, attempt_path


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How an attempt ended; ``error`` has type, what, where and remedy where there is something to say."""

    outcome: Outcome
    error: dict[str, str] | None = None


class Attempt:
    """The records of one numbered attempt at one address."""

    def __init__(self, store: Store, address: Address, number: int) -> None:
        self.store, self.address, self.number = store, address, number
        self.path = attempt_path(address, number)

    def claim(self, actor: str) -> bool:
        """True for the one caller who may launch this attempt."""
        return self.store.create_json(f"{self.path}/claim.json", {"actor": actor, "at": time.time()})

    def claimed_at(self) -> float:
        """Seconds since the epoch at which the attempt was claimed."""
        return float(self.store.get_json(f"{self.path}/claim.json")["at"])

    def write_spec(self, spec: WorkSpec) -> None:
        self.store.put_json(f"{self.path}/spec.json", spec.model_dump(mode="json"))

    def launch(self) -> dict[str, Any] | None:
        """The launcher's handle, or None where nothing was launched (yet)."""
        return self.store.find_json(f"{self.path}/launch.json")

    def write_launch(self, handle: dict[str, Any]) -> None:
        self.store.put_json(f"{self.path}/launch.json", handle)

    def progress(self) -> dict[str, Any]:
        """Phase, done, total and extras of the last heartbeat; empty before the first."""
        return self.store.find_json(f"{self.path}/progress.json") or {}

    def ending(self) -> Ending | None:
        """How the attempt ended, or None while it has not."""
        raw = self.store.find_json(f"{self.path}/outcome.json")
        return Ending(outcome=Outcome(raw["outcome"]), error=raw["error"]) if raw else None

    def record_ending(self, outcome: Outcome, error: dict[str, str] | None = None) -> None:
        """Say how it ended, unless somebody (the worker itself) said so first."""
        self.store.create_json(f"{self.path}/outcome.json", {"outcome": outcome, "error": error})

    def request_stop(self, actor: str) -> None:
        """Record that the work was cancelled on purpose, so that its end is not taken for a preemption."""
        self.store.create_json(f"{self.path}/stop.json", {"actor": actor, "at": time.time()})

    def stop_requested(self) -> bool:
        return self.store.exists(f"{self.path}/stop.json")

    def chunks(self, kind: str, after: int) -> list[tuple[int, bytes]]:
        """Chunks of ``steps`` or ``log`` numbered above ``after``, in order."""
        found: list[tuple[int, bytes]] = []
        number = after + 1
        while True:
            try:
                data = self.store.get(chunk_path(self.path, kind, number))
            except FileNotFoundError:
                return found
            found.append((number, data))
            number += 1

    def write_log(self, number: int, text: bytes) -> None:
        """Add a chunk of log text; the worker itself writes all but the last words of one that was killed."""
        self.store.put(chunk_path(self.path, "log", number), text)

    def steps(self) -> list[dict[str, Any]]:
        """Every step row written so far."""
        return [json.loads(line) for _, data in self.chunks("steps", 0) for line in data.splitlines()]

    def log(self) -> str:
        """All log text shipped so far."""
        return b"".join(data for _, data in self.chunks("log", 0)).decode(errors="replace")


def chunk_path(attempt: str, kind: str, number: int) -> str:
    """Where chunk ``number`` of ``steps`` or ``log`` of the attempt at path ``attempt`` is."""
    return f"{attempt}/{kind}-{number:06d}.{'jsonl' if kind == 'steps' else 'txt'}"


def attempts_at(store: Store, address: Address) -> list[Attempt]:
    """All attempts at ``address``, oldest first."""
    return [Attempt(store, address, int(name)) for name in store.folders(f"{address}/attempts")]
