"""Attempts at an artifact: create-only claims, the heartbeat, and how each one ended.

The process that creates the next number's ``claim.json`` launches that attempt; all others attach to it. All state is
in the store, so any orchestrator that can read the store replaces one that died.
"""

import json
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from ft_resources.artifacts import Address
from ft_resources.errors import CorruptArtifact
from ft_resources.json_object import JsonObject, require_shape
from ft_resources.outcomes import Outcome
from ft_resources.store import Store
from ft_resources.work import WorkSpec, attempt_path

# Attempts that are not metered yet, by tenant. Written before the worker starts.
OPEN_ATTEMPTS = "open_attempts"
# What a launcher records of an attempt's pod: the cluster deletes its own objects soon.
PLACE = "place.json"
# What a training's worker measured of several nodes before it trained.
PREFLIGHT = "preflight.json"
# What a worker waited for before its first step, and what was fetched for it before it started (first_step.py).
START, FETCHED = "start.json", "fetched.json"
_NODE, _MOST_SICK = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"), 8
_WAIT = "wait.json"
_GPUS, _IN_VAIN = "gpus", "in_vain"
# A placement that was not recorded within this time never will be.
_PLACE_WAIT_S = 3600.0
# A worker beats every second and writes its outcome after the last beat.
BEAT_MARGIN_S = 5.0
# Seconds since the epoch, in the year 5138: dates beyond it overflow calendar types.
_LATEST = 1e11
# Numeric fields of a worker's progress and their upper limits: larger values fit no float or no date.
_MOST = {
    **dict.fromkeys(("at", "since"), _LATEST),
    **dict.fromkeys(("done", "total", "save_s", "eta_s"), sys.float_info.max),
}


_Moment = Annotated[float, Field(ge=0, le=_LATEST)]


@with_config(ConfigDict(strict=True))
class _Written(TypedDict, total=False):
    """Small records of an attempt: its claim, its launch, its stop and its wait."""

    actor: str
    at: _Moment
    folder: str
    gpus: int
    host: str
    launcher: str
    log: str
    namespace: str
    pid: int
    said: str
    until: _Moment


_WRITTEN = TypeAdapter(_Written)


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How an attempt ended; ``error`` has type, what, where and remedy if there was an error."""

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
        """Claim this attempt. True for exactly one caller, which may then launch it."""
        return self.store.create_json(f"{self.path}/claim.json", {"actor": actor, "at": time.time()})

    @property
    def marker(self) -> str:
        """Path of the entry that exists until the attempt is metered."""
        address = self.address
        return f"{OPEN_ATTEMPTS}/{address.tenant}/{address.asset}.{address.fingerprint}.{self.number:04d}.json"

    def mark_open(self, label: str, actor: str) -> None:
        """List the attempt among those whose usage is to be counted; ``label`` is the work's partition key."""
        self.store.put_json(self.marker, {"label": label, "actor": actor})

    def claimed_at(self) -> float:
        """Seconds since the epoch at which the attempt was claimed."""
        found = self._written("claim.json")
        if found is None:
            raise FileNotFoundError(f"{self.path}/claim.json")
        return float(found["at"])

    def write_spec(self, spec: WorkSpec) -> None:
        self.store.put_json(f"{self.path}/spec.json", spec.model_dump(mode="json"))

    def spec(self) -> WorkSpec | None:
        """What it was started with; None before that. Raises CorruptArtifact."""
        raw = self.store.find_json(f"{self.path}/spec.json")
        try:
            return None if raw is None else WorkSpec.model_validate_json(json.dumps(raw))
        except ValueError as error:
            raise _unreadable(f"{self.path}/spec.json", "what an attempt was started with") from error

    def launch(self) -> dict[str, Any] | None:
        """The launcher's handle, or None if nothing was launched yet."""
        return self._written("launch.json")

    def write_launch(self, handle: dict[str, Any]) -> None:
        """Record where the worker runs, and that it was started now."""
        self.store.put_json(f"{self.path}/launch.json", {"at": time.time(), **handle})

    def progress(self) -> dict[str, Any]:
        """Phase, done, total and extras of the last heartbeat; empty before the first.

        Workers are not trusted: fields that should be numbers and are not are dropped.
        """
        try:
            raw = self.store.find_json(f"{self.path}/progress.json")
        except CorruptArtifact:
            return {}
        if not isinstance(raw, dict):
            return {}
        return {name: value for name, value in raw.items() if name not in _MOST or _is_number(value, _MOST[name])}

    def ending(self) -> Ending | None:
        """How the attempt ended, or None while it runs. Raises CorruptArtifact for an unknown outcome."""
        raw = self._outcome()
        return Ending(outcome=Outcome(raw["outcome"]), error=raw.get("error")) if raw else None

    def closed_at(self) -> float | None:
        """When the ending was recorded (seconds since the epoch); None before that."""
        raw = self._outcome()
        return float(raw.get("at", 0.0)) if raw else None

    def record_ending(self, outcome: Outcome, error: dict[str, str] | None = None) -> None:
        """Record the ending, unless one is recorded already (usually by the worker itself)."""
        self.store.create_json(f"{self.path}/outcome.json", {"outcome": outcome, "error": error, "at": time.time()})

    def place(self) -> dict[str, Any] | None:
        """The cluster's record of where and when the attempt ran (``started_at``, ``ended_at``, ``cause``, ``refund``,
        ``evidence``); None if there is none (yet). Raises CorruptArtifact for a record that no launcher wrote."""
        raw = self.store.find_json(f"{self.path}/{PLACE}")
        if raw is not None and not _is_place(raw):
            raise _unreadable(f"{self.path}/{PLACE}", "where an attempt ran")
        return raw

    def awaits_place(self) -> bool:
        """Whether a cluster will still record where and when the ended attempt ran.

        A worker that sent a heartbeat did run, even if its launcher died before recording the launch.
        """
        launch, outcome = self.launch(), self._outcome()
        local = launch is not None and launch.get("launcher") == "local"
        never_ran = launch is None and not self.progress()
        if outcome is None or local or never_ran or self.place():
            return False
        return time.time() - float(outcome.get("at", 0.0)) < _PLACE_WAIT_S

    def span(self, *, now: float | None = None) -> Span | None:
        """When the attempt occupied its machine; None before it ended, or if nothing was started. With ``now`` one that
        has not ended occupied it until then.

        Without the cluster's own record the span starts at launch on this machine, or at the first heartbeat elsewhere
        (the pod may have queued for days), and ends at the last heartbeat: time after an unnoticed death is not billed.
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
        at = now if outcome is None else outcome.get("at", beat)
        if at is None or beat is None:
            return None
        if launch is not None and (launch.get("launcher") == "local" or since is None):
            started = float(launch.get("at", self.claimed_at()))
        elif since is not None:
            started = float(since)
        else:
            return None
        ended = min(float(at), float(beat) + BEAT_MARGIN_S)
        evidence = {"started_at": started, "last_beat_at": float(beat), "ended_at": (outcome or {}).get("at")}
        return Span(started_at=started, ended_at=max(started, ended), evidence=evidence)

    def _outcome(self) -> dict[str, Any] | None:
        raw = self.store.find_json(f"{self.path}/outcome.json")
        if raw is not None and not _is_outcome(raw):
            raise _unreadable(f"{self.path}/outcome.json", "how an attempt ended")
        return raw

    def record_wait(self, until: float, said: str) -> None:
        """Record that its launcher tries again at ``until`` (seconds since the epoch), and why it could not before."""
        self.store.put_json(f"{self.path}/{_WAIT}", {"until": until, "said": said})

    def wait(self) -> dict[str, Any] | None:
        """``until`` and ``said`` of the last ``record_wait``; None if its launcher never had to wait."""
        return self._written(_WAIT)

    def record(self, name: str) -> Any | None:
        """What a worker recorded in ``name``; None if it did not, or what it wrote is not JSON."""
        try:
            return self.store.find_json(f"{self.path}/{name}")
        except CorruptArtifact:
            return None

    def sick_nodes(self) -> list[str]:
        """Machines that its worker found not well before it trained (``preflight.json``)."""
        raw = self.record(PREFLIGHT)
        sick = raw.get("sick") if isinstance(raw, dict) else None
        # Workers are not trusted; this is the pattern of a node's name in a cluster.
        return [name for name in sick if _NODE.fullmatch(name)][:_MOST_SICK] if isinstance(sick, dict) else []

    def request_stop(self, actor: str) -> None:
        """Record that the work was cancelled by a person, so that its end is not counted as a preemption."""
        if not self.store.create_json(self._stop, {"actor": actor, "at": time.time()}) and self._resize():
            self.store.put_json(self._stop, {"actor": actor, "at": time.time()})

    def request_resize(self, gpus: int, *, in_vain: bool = False) -> None:
        """Ask the worker to save and end, so that the next attempt goes on with so many GPUs as there is room for now,
        which are probably ``gpus``; ``in_vain`` if it waited for what was never going to come."""
        self.store.create_json(self._stop, {_GPUS: gpus, _IN_VAIN: in_vain, "at": time.time()})

    def waited_in_vain_at(self) -> float | None:
        """When it was given up that it gets the GPUs it was launched with; None if it was not."""
        asked = self._asked()
        return float(asked["at"]) if asked.get(_IN_VAIN) else None

    def stop_requested(self) -> bool:
        """Whether we stopped it: a person who cancelled it, or a change of its GPUs."""
        return self.store.exists(self._stop)

    def stopped_as(self) -> Outcome:
        """How the worker ends that we stop: cancelled, or resized."""
        return Outcome.RESIZED if self._resize() else Outcome.CANCELLED

    def record_stopped(self) -> None:
        """Record that the work ended because we stopped it."""
        ending = self.stopped()
        self.record_ending(ending.outcome, ending.error)

    def stopped(self) -> Ending:
        """How it ends as a person asked for it, and who that was; or to change its GPUs."""
        if self._resize():
            return Ending(outcome=Outcome.RESIZED)
        asked = self._asked()
        ran = bool(self.progress())
        words = {
            "what": f"{asked.get('actor', 'somebody')} cancelled it" + ("" if ran else " before it started"),
            "where": str(self.address),
            "remedy": "To run it anyway, submit it again; "
            + ("a training continues from its last save." if ran else "nothing is billed."),
        }
        return Ending(outcome=Outcome.CANCELLED, error={"type": "WorkFailed", **words})

    @property
    def _stop(self) -> str:
        return f"{self.path}/stop.json"

    def _asked(self) -> Mapping[str, Any]:
        return self._written("stop.json") or {}

    def _resize(self) -> bool:
        return _GPUS in self._asked()

    def _written(self, name: str) -> dict[str, Any] | None:
        """The record ``name``, None if there is none. Raises CorruptArtifact for a member that is missing where it is
        asked for, or is not as in ``_Written``."""
        found: JsonObject | None = self.store.find_json(f"{self.path}/{name}")
        if found is not None:
            require_shape(found, _WRITTEN, found.error)
        return found

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

    def complete_log(self, text: bytes) -> None:
        """Append what the worker, which uploads its own log, has not uploaded of ``text``, the whole of it."""
        chunks = self.chunks("log", 0)
        if rest := text[sum(len(data) for _, data in chunks) :]:
            self.store.put(chunk_path(self.path, "log", len(chunks) + 1), rest)

    def steps(self) -> list[dict[str, Any]]:
        """Every step row written so far."""
        return [row for _, data in self.chunks("steps", 0) for row in step_rows(data)]

    def log(self) -> str:
        """All log text shipped so far."""
        return b"".join(data for _, data in self.chunks("log", 0)).decode(errors="replace")


def step_rows(data: bytes) -> Iterator[dict[str, Any]]:
    """The rows in a chunk of ``steps``, each with its ``step``. Workers are not trusted: lines that are none, and what
    is no number in them, are left out."""
    for line in data.splitlines():
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and isinstance(found.get("step"), int):
            row = {name: value for name, value in found.items() if _is_figure(value)}
            yield from [row] if "step" in row else []


def is_moment(value: object) -> bool:
    """Whether it is a time in seconds since the epoch."""
    return _is_number(value, _LATEST)


def _is_figure(value: object) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63)


def _is_number(value: object, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most


def _is_outcome(raw: object) -> bool:
    """Whether it has the form that a worker or ``record_ending`` writes."""
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
        remedy="Only a worker writes there: check which image it ran. Remove the object to have the end recorded "
        "again.",
    )


def chunk_path(attempt: str, kind: str, number: int) -> str:
    """Path of chunk ``number`` of ``steps`` or ``log`` of the attempt at path ``attempt``."""
    return f"{attempt}/{kind}-{number:06d}.{'jsonl' if kind == 'steps' else 'txt'}"


def attempts_at(store: Store, address: Address) -> list[Attempt]:
    """All attempts at ``address``, oldest first."""
    return [Attempt(store, address, int(name)) for name in store.folders(f"{address}/attempts")]
