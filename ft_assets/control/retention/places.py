"""Read the state of addresses, and carry out the plan of ``leftovers``."""

import re
import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from ft_assets.control.erasure.collect import RECORDS
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.retention.leftovers import Leftover, Place, PlacePlan, Trace, may_have_leftovers, plan_place
from ft_assets.records.retired_datasets import retired_datasets
from ft_assets.records.submissions import Submission, open_submissions
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import MANIFEST, Address, Artifacts
from ft_resources.attempts import Attempt
from ft_resources.errors import CorruptArtifact, StoreUnavailable, UserError
from ft_resources.execution import Execution
from ft_resources.launchers.base import LaunchState
from ft_resources.outcomes import Outcome
from ft_resources.store import Entry, Store

# Addresses examined even if the listing used up the time, so that every run makes progress.
_AT_LEAST = 100
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_DEAD = {
    "type": "WorkFailed",
    "what": "the worker stopped sending heartbeats",
    "where": "",
    "remedy": "Submit it again: it resumes from its last save.",
}


@dataclass(kw_only=True)
class PlacesCollected:
    """What was done, or would be: attempts whose ending is recorded, what is removed, the number of objects; what was
    unreadable and skipped; and where the scan ended, "" if it was complete."""

    ended: list[str] = field(default_factory=list)
    dropped: list[Leftover] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    looked: int = 0
    last: str = ""

    @property
    def objects(self) -> int:
        return sum(len(each.paths) for each in self.dropped)

    @property
    def size(self) -> int:
        """Total size in bytes."""
        return sum(each.size for each in self.dropped)


def collect_places(
    artifacts: Artifacts,
    tenants: TenantsFile,
    *,
    now: datetime | None = None,
    busy: Collection[str] = (),
    execution: Execution | None = None,
    after: str = "",
    dry_run: bool = False,
    most: int | None = None,
    seconds: float | None = None,
) -> PlacesCollected:
    """Remove leftovers of finished work.

    Args:
        now: UTC.
        busy: partition keys of runs in progress.
        execution: tells whether a worker is alive; without it, workers on a cluster are assumed to be.
        after: start after this address, where the last run ended.
        most: maximum number of objects to remove; the next run continues.
        seconds: time limit.

    An address with unreadable records is skipped. Raises StoreUnavailable.
    """
    store, now, began = artifacts.store, now or datetime.now(UTC), time.monotonic()
    found = PlacesCollected()
    waited = {**dict.fromkeys(busy, "a run is in progress"), **_waited(store)}
    retired = retired_datasets(store)
    begin, last = tuple(after.split("/")), after
    for tenant, asset in _folders(store, tenants):
        if (tenant, asset) < begin[:2]:
            continue
        rule = tenants.leftovers_of(tenant)
        for address, entries in sorted(_by_address(store, f"{tenant}/{asset}").items()):
            if tuple(address.split("/")) <= begin:
                continue
            spent = seconds is not None and found.looked >= _AT_LEAST and time.monotonic() - began > seconds
            if spent or (most is not None and found.objects >= most):
                found.last = last
                return found
            found.looked, last = found.looked + 1, address
            try:
                place = Place(address=address, entries=entries, writer=_writer(artifacts, address, entries))
                if may_have_leftovers(place, rule, now):
                    place = _read(store, place, waited, retired, execution)
                    _carry_out(store, place, plan_place(place, rule, now), found, execution, dry_run=dry_run)
            except CorruptArtifact as error:
                found.problems.append(f"{error.where}: {error.what}")
    return found


def _carry_out(
    store: Store,
    place: Place,
    plan: PlacePlan,
    found: PlacesCollected,
    execution: Execution | None,
    *,
    dry_run: bool,
) -> None:
    for number in plan.end:
        attempt = Attempt(store, Address.parse(place.address), number)
        found.ended.append(attempt.path)
        if not dry_run and execution:
            execution.bury(attempt)
        elif not dry_run:
            attempt.record_ending(Outcome.PREEMPTED, _DEAD)
    if plan.drop and not place.writer and store.exists(f"{place.address}/{MANIFEST}"):
        # It has become an artifact since the scan.
        return
    for leftover in plan.drop:
        found.dropped.append(leftover)
        for path in leftover.paths if not dry_run else ():
            store.delete(path)


def _folders(store: Store, tenants: TenantsFile) -> Iterator[tuple[str, str]]:
    """Tenant and asset folders that have a rule, in order."""
    for tenant in store.tenants():
        if tenants.leftovers_of(tenant).patience_days is not None:
            yield from ((tenant, asset) for asset in store.folders(tenant) if asset not in RECORDS)


def _by_address(store: Store, folder: str) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in store.entries(folder):
        parts = entry.path.split("/")
        if len(parts) > 3 and _FINGERPRINT.fullmatch(parts[2]):
            found["/".join(parts[:3])].append(entry)
    return found


def _writer(artifacts: Artifacts, address: str, entries: Collection[Entry]) -> str:
    """The folder that the manifest names, or "". The manifest is read only if there are several folders."""
    path = f"{address}/{MANIFEST}"
    if not any(each.path == path for each in entries):
        return ""
    tops = {each.path.removeprefix(f"{address}/").split("/")[0] for each in entries} - {MANIFEST, "attempts", "erased"}
    if len(tops) == 1:
        return tops.pop()
    artifact = artifacts.find(Address.parse(address))
    return artifact.manifest.writer if artifact else ""


def _read(
    store: Store,
    place: Place,
    waited: dict[str, str],
    retired: Collection[str],
    execution: Execution | None,
) -> Place:
    """``place`` with what its attempts' records say."""
    address = Address.parse(place.address)
    numbers = sorted(
        {int(parts[4]) for parts in (each.path.split("/") for each in place.entries) if parts[3] == "attempts"}
    )
    attempts = [Attempt(store, address, number) for number in numbers]
    try:
        # The listing may be minutes old: attempts that began since then count.
        specs = [store.find_json(f"{attempt.path}/spec.json") or {} for attempt in attempts]
        labels = [str(spec["label"]) for spec in specs if "label" in spec]
        wanted = next((waited[label] for label in labels if label in waited), "")
        again = not labels or any(label.partition("|")[0] not in retired for label in labels)
        traces = [_trace(store, attempt, place.entries, execution) for attempt in attempts]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # Not as a worker writes them. Treating them as absent could remove files in use.
        remedy = "Restore the object from the bucket's versions or a backup."
        raise CorruptArtifact(
            "the records of an attempt cannot be read", where=f"{address}/attempts", remedy=remedy
        ) from error
    return replace(place, attempts=tuple(traces), wanted=wanted, again=again)


def _trace(store: Store, attempt: Attempt, entries: Collection[Entry], execution: Execution | None) -> Trace:
    outcome, launch = store.find_json(f"{attempt.path}/outcome.json"), attempt.launch()
    # The newest object counts too: an upload is a sign of life.
    newest = max(each.modified for each in entries if each.path.startswith(f"{attempt.path}/"))
    beat = attempt.progress().get("at")
    return Trace(
        number=attempt.number,
        seen_at=max(newest, _time(beat)) if beat else newest,
        ended_at=None if outcome is None else _time(outcome["at"]) if outcome.get("at") else newest,
        running=outcome is None and _runs(attempt, launch or {}, execution),
        counted=not store.exists(attempt.marker),
    )


def _runs(attempt: Attempt, launch: dict[str, Any], execution: Execution | None) -> bool:
    """Whether the launcher says that it runs; assumed if the cluster cannot be asked, as a Job may queue for days."""
    state = execution.launcher.state(attempt) if execution else LaunchState.UNKNOWN
    remote = launch.get("launcher", "local") != "local"
    return state is LaunchState.RUNNING or (remote and state is not LaunchState.GONE)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)


def _waited(store: Store) -> dict[str, str]:
    """Partition keys that open submissions need, and the submission for each."""
    found: dict[str, str] = {}
    for submission in open_submissions(store, problems=[]):
        why = f"submission {submission.id} is open"
        for label in (submission.dataset, submission.recipe, submission.pair, *_trials(store, submission)):
            found.setdefault(label, why)
    return found


def _trials(store: Store, submission: Submission) -> list[str]:
    """The pairs of a sweep's trials; empty if the recipe cannot be read, since then nothing of it is launched."""
    try:
        trials = get_recipe(store, submission.recipe).trials
    except StoreUnavailable:
        raise
    except UserError:
        return []
    return [key for trial in trials for key in (trial.key, f"{submission.dataset}|{trial.key}")]
