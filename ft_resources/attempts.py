"""Attempts at an artifact: create-only claims, the heartbeat, and how each one ended.

Whoever creates ``claim.json`` of the next number launches that attempt; everybody else attaches to it. All state is
in the store, so an orchestrator that died is replaced by any other that can read the store.
"""

import json
import sys
import time
from dataclasses import dataclass
from typing import Any

from ft_resources.artifacts import Address
from ft_resources.errors import CorruptArtifact
from ft_resources.outcomes import Outcome
from ft_resources.store import Store
from ft_resources.work import WorkSpec, attempt_path

# Attempts whose usage nobody has counted yet, by tenant: written before the worker is started.
OPEN_ATTEMPTS = "open_attempts"
# What a launcher leaves of an attempt's place on a cluster, whose own objects are soon gone.
PLACE = "place.json"
# A place that nobody records in this time is not going to be.
_PLACE_WAIT_S = 3600.0
# A worker beats every second and writes its outcome after the last beat.
BEAT_MARGIN_S = 5.0
# Seconds since the epoch: of the year 5138, so that a calendar knows the moment and its neighbours.
_LATEST = 1e11
# Of a worker's progress: numbers, and how large they may be. A larger one is no float, or no moment.
_MOST = {
    **dict.fromkeys(("at", "since"), _LATEST),
    **dict.fromkeys(("done", "total", "save_s", "eta_s"), sys.float_info.max),
}


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How an attempt ended; ``error`` has type, what, where and remedy where there is something to say."""

    outcome: Outcome
    error: dict[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Span:
    """From when to when an attempt occupied its machine (seconds since the epoch), and what says so."""

    started_at: float
    ended_at: float
    evidence: dict[str, Any]


class Attempt:
    """The records of one numbered attempt at one address."""

    def __init__(self, store: Store, address: Address, number: int) -> None:
        self.store, self.address, self.number = store, address, number
        self.path = attempt_path(address, number)

    def claim(self, actor: str) -> bool:
        """True for the one caller who may launch this attempt."""
        return self.store.create_json(f"{self.path}/claim.json", {"actor": actor, "at": time.time()})

    @property
    def marker(self) -> str:
        """Where it is listed until its usage is counted."""
        address = self.address
        return f"{OPEN_ATTEMPTS}/{address.tenant}/{address.asset}.{address.fingerprint}.{self.number:04d}.json"

    def mark_open(self, label: str, actor: str) -> None:
        """List the attempt among those whose usage is to be counted; ``label`` is the work's partition key."""
        self.store.put_json(self.marker, {"label": label, "actor": actor})

    def claimed_at(self) -> float:
        """Seconds since the epoch at which the attempt was claimed."""
        return float(self.store.get_json(f"{self.path}/claim.json")["at"])

    def write_spec(self, spec: WorkSpec) -> None:
        self.store.put_json(f"{self.path}/spec.json", spec.model_dump(mode="json"))

    def launch(self) -> dict[str, Any] | None:
        """The launcher's handle, or None where nothing was launched (yet)."""
        return self.store.find_json(f"{self.path}/launch.json")

    def write_launch(self, handle: dict[str, Any]) -> None:
        """Record where the worker runs, and that it was started now."""
        self.store.put_json(f"{self.path}/launch.json", {"at": time.time(), **handle})

    def progress(self) -> dict[str, Any]:
        """Phase, done, total and extras of the last heartbeat; empty before the first.

        A worker may write what it likes there: what should be a number and is none is left out.
        """
        try:
            raw = self.store.find_json(f"{self.path}/progress.json")
        except CorruptArtifact:
            return {}
        if not isinstance(raw, dict):
            return {}
        return {name: value for name, value in raw.items() if name not in _MOST or _is_number(value, _MOST[name])}

    def ending(self) -> Ending | None:
        """How the attempt ended, or None while it has not. Raises CorruptArtifact for a word that is none of ours."""
        raw = self._outcome()
        return Ending(outcome=Outcome(raw["outcome"]), error=raw.get("error")) if raw else None

    def closed_at(self) -> float | None:
        """When its end was put on record, in seconds since the epoch; None while it is not."""
        raw = self._outcome()
        return float(raw.get("at", 0.0)) if raw else None

    def record_ending(self, outcome: Outcome, error: dict[str, str] | None = None) -> None:
        """Say how it ended, unless somebody (the worker itself) said so first."""
        self.store.create_json(f"{self.path}/outcome.json", {"outcome": outcome, "error": error, "at": time.time()})

    def place(self) -> dict[str, Any] | None:
        """What a cluster kept of where and when the attempt ran (``started_at``, ``ended_at``, ``cause``, ``refund``,
        ``evidence``); None where it said nothing (yet). Raises CorruptArtifact for what no launcher wrote."""
        raw = self.store.find_json(f"{self.path}/{PLACE}")
        if raw is not None and not _is_place(raw):
            raise _unreadable(f"{self.path}/{PLACE}", "where an attempt ran")
        return raw

    def awaits_place(self) -> bool:
        """Whether a cluster will still say where and when the ended attempt ran.

        A worker that was heard of ran, also where whoever launched it died before it had written that down.
        """
        launch, outcome = self.launch(), self._outcome()
        local = launch is not None and launch.get("launcher") == "local"
        never_ran = launch is None and not self.progress()
        if outcome is None or local or never_ran or self.place():
            return False
        return time.time() - float(outcome.get("at", 0.0)) < _PLACE_WAIT_S

    def span(self) -> Span | None:
        """When the ended attempt occupied its machine; None while it has not ended, and where nothing was started.

        Where no cluster says so: from the launch, elsewhere than on this machine from the first sign of life (it may
        have waited in a queue for days), to the last one, so that the time for which a worker that died unseen kept its
        machine is nobody's cost.
        """
        if place := self.place():
            if place["started_at"] is None or place["ended_at"] is None:
                return None
            return Span(
                started_at=float(place["started_at"]),
                ended_at=max(float(place["started_at"]), float(place["ended_at"])),
                evidence={"cause": place["cause"], **place["evidence"]},
            )
        outcome, launch, progress = self._outcome(), self.launch(), self.progress()
        beat, since = progress.get("at"), progress.get("since")
        if outcome is None or beat is None:
            return None
        if launch is not None and (launch.get("launcher") == "local" or since is None):
            started = float(launch.get("at", self.claimed_at()))
        elif since is not None:
            started = float(since)
        else:
            return None
        ended = min(float(outcome.get("at", beat)), float(beat) + BEAT_MARGIN_S)
        evidence = {"started_at": started, "last_beat_at": float(beat), "ended_at": outcome.get("at")}
        return Span(started_at=started, ended_at=max(started, ended), evidence=evidence)

    def _outcome(self) -> dict[str, Any] | None:
        raw = self.store.find_json(f"{self.path}/outcome.json")
        if raw is not None and not _is_outcome(raw):
            raise _unreadable(f"{self.path}/outcome.json", "how an attempt ended")
        return raw

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


def _is_number(value: object, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most


def _is_outcome(raw: object) -> bool:
    """Whether it is as a worker or ``record_ending`` writes it."""
    if (
        not isinstance(raw, dict)
        or raw.get("outcome") not in list(Outcome)
        or not _is_number(raw.get("at", 0.0), _LATEST)
    ):
        return False
    error = raw.get("error")
    words = isinstance(error, dict) and error.keys() >= {"type", "what", "where", "remedy"}
    return error is None or (words and all(isinstance(word, str) for word in error.values()))


def _is_place(raw: object) -> bool:
    if not isinstance(raw, dict) or not {"started_at", "ended_at", "cause", "evidence"} <= raw.keys():
        return False
    times = (raw["started_at"], raw["ended_at"])
    known = raw.get("refund", "none") in ("none", "full", "flagged") and isinstance(raw["evidence"], dict)
    return known and isinstance(raw["cause"], str) and all(each is None or _is_number(each, _LATEST) for each in times)


def _unreadable(where: str, what: str) -> CorruptArtifact:
    return CorruptArtifact(
        f"the record of {what} cannot be read",
        where=where,
        remedy="Only a worker writes there: look which image it ran. Remove the object to have the end recorded again.",
    )


def chunk_path(attempt: str, kind: str, number: int) -> str:
    """Where chunk ``number`` of ``steps`` or ``log`` of the attempt at path ``attempt`` is."""
    return f"{attempt}/{kind}-{number:06d}.{'jsonl' if kind == 'steps' else 'txt'}"


def attempts_at(store: Store, address: Address) -> list[Attempt]:
    """All attempts at ``address``, oldest first."""
    return [Attempt(store, address, int(name)) for name in store.folders(f"{address}/attempts")]
