"""Get an artifact: reuse it, attach to the attempt that is making it, or start one; retry as the outcome table says.

Only this module starts attempts. Its decisions rest on the store alone, so it may be killed at any moment: the next
caller attaches to a living attempt or replaces a dead one.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ft_resources import errors
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.attempts import Attempt, Ending, attempts_at
from ft_resources.launchers.base import Launcher, LaunchState
from ft_resources.outcomes import POLICIES, Outcome, grace_s
from ft_resources.store import Store
from ft_resources.work import WorkRequest, WorkSpec

POLL_S = 0.2
REMOTE_POLL_S = 1.0
# A worker on another machine counts as dead once its heartbeat (one a second) is this old.
LEASE_S = 30.0
# A silent worker, such as one in a queue, is checked less and less often: each check takes three reads of the store.
_SILENCE_SHARE, _LONGEST_POLL_S = 0.1, 10.0
# How long a launch that finds no room waits before it is tried again, and how soon it sees meanwhile that it need not.
_FIRST_DELAY_S, _LONGEST_DELAY_S, _LOOK_S = 5.0, 300.0, 5.0


class Observer:
    """Follows the work while it runs; called from the waiting thread. This one does nothing."""

    def attempt(self, attempt: Attempt, *, attached: bool) -> None:
        """The work is at ``attempt``, which was started, or had been by another."""

    def progress(self, progress: dict[str, Any]) -> None:
        """What the worker reports has changed."""

    def steps(self, attempt: Attempt, chunk: int, data: bytes) -> None:
        """A new chunk of step metrics, as JSON lines."""

    def waiting(self, why: str, delay_s: float) -> None:
        """There is no room for the worker, and launching it is tried again after a delay."""

    def retrying(self, ending: Ending, delay_s: float, change: str) -> None:
        """The attempt has ended, and the next begins after a delay; ``change`` says what differs, "" if nothing."""


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """An artifact; ``cached`` if no worker ran or was waited for."""

    artifact: Artifact
    cached: bool
    attempts: int


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Runs requests against one store with one launcher."""

    store: Store
    launcher: Launcher
    poll_s: float = POLL_S
    lease_s: float = LEASE_S
    sleep: Callable[[float], None] = time.sleep

    def run(self, request: WorkRequest, *, actor: str, observer: Observer | None = None) -> RunResult:
        """The artifact of ``request``. Raises the worker's own UserError, or WorkFailed."""
        observer = observer or Observer()
        artifacts = Artifacts(self.store)
        address = request.address
        if found := artifacts.find(address):
            return RunResult(artifact=found, cached=True, attempts=0)
        endings: Counter[Outcome] = Counter()
        tried = furthest = 0
        while True:
            attempt = self._attach_or_start(request, actor, observer, oom_before=endings[Outcome.OUT_OF_MEMORY])
            tried += 1
            ending = self._wait(attempt, observer)
            if found := artifacts.find(address):
                return RunResult(artifact=found, cached=False, attempts=tried)
            # Interruptions do not count against the limit as long as each attempt makes progress.
            reached = _reached(attempt)
            if ending.outcome is Outcome.PREEMPTED and reached > furthest:
                endings[Outcome.PREEMPTED], furthest = 0, reached
            policy = POLICIES[ending.outcome]
            if policy.halves and (larger := request.resources.larger_gpu_type):
                # The prediction for the part was wrong. Not counted: on a whole GPU, memory may suffice.
                grown = request.resources.model_copy(update={"gpu_type": larger, "larger_gpu_type": None})
                request = replace(request, resources=grown)
                observer.retrying(ending, 0.0, f"on one {larger}")
                continue
            endings[ending.outcome] += 1
            useless = policy.halves and not _can_halve(request.runtime, halved=endings[ending.outcome] - 1)
            if endings[ending.outcome] > policy.retries or useless:
                raise error_of(ending, attempt, request.label)
            delay_s = policy.delay_s(endings[ending.outcome])
            observer.retrying(ending, delay_s, "with half the micro-batch" if policy.halves else "")
            self.sleep(delay_s)

    def cancel(self, address: Address, *, actor: str) -> bool:
        """Cancel the work at ``address``. False if none was running.

        The worker gets the grace period that it reported for saving (``save_s``) before it is killed.
        """
        attempts = attempts_at(self.store, address)
        if not attempts or attempts[-1].ending() is not None:
            return False
        last = attempts[-1]
        last.request_stop(actor)
        # A worker that the launcher cannot reach (on another machine, or just starting) sees the stop request itself.
        self.launcher.stop(last, grace_s(float(last.progress().get("save_s", 0.0))))
        last.record_stopped()
        self.launcher.clean_up(last)
        return True

    def _attach_or_start(self, request: WorkRequest, actor: str, observer: Observer, *, oom_before: int) -> Attempt:
        """The living attempt at the request's address, or a new one."""
        while True:
            attempts = attempts_at(self.store, request.address)
            last = attempts[-1] if attempts else None
            if last is not None and last.ending() is None:
                if self._lives(last):
                    observer.attempt(last, attached=True)
                    return last
                self.bury(last)
            number = last.number + 1 if last else 1
            attempt = Attempt(self.store, request.address, number)
            if not attempt.claim(actor):
                self.sleep(self.poll_s)
                continue
            if Artifacts(self.store).find(request.address):
                # Another process finished the work between the caller's look-up and this claim.
                attempt.record_ending(Outcome.DONE)
                return attempt
            self._launch(self._spec(request, number, actor, oom_before), attempt, observer)
            observer.attempt(attempt, attached=False)
            return attempt

    def _launch(self, spec: WorkSpec, attempt: Attempt, observer: Observer) -> None:
        """Start the worker. If that fails or is refused, record the attempt's end, so that nobody waits for it."""
        try:
            if spec.resources.gpu_sizes:
                spec = spec.on_gpus(self.launcher.gpus_now(spec, attempt))
            attempt.write_spec(spec)
            attempt.mark_open(spec.label, spec.actor)
            self._launch_when_there_is_room(spec, attempt, observer)
        except errors.StoreUnavailable:
            raise
        except errors.ClusterUnavailable as problem:
            # Retried like any other platform failure: an API server that restarts is back in a minute.
            words = {"what": problem.what, "where": problem.where, "remedy": problem.remedy}
            attempt.record_ending(Outcome.PLATFORM_ERROR, {"type": type(problem).__name__, **words})
        except errors.UserError as refusal:
            words = {"what": refusal.what, "where": refusal.where, "remedy": refusal.remedy}
            attempt.record_ending(Outcome.USER_ERROR, {"type": type(refusal).__name__, **words})
            raise
        except OSError as error:
            attempt.record_ending(Outcome.PLATFORM_ERROR, None)
            remedy = "Free memory, processes or disk space on this machine, then run this again."
            raise errors.WorkFailed(
                f"no worker could be started ({error})", where=attempt.path, remedy=remedy
            ) from error

    def _launch_when_there_is_room(self, spec: WorkSpec, attempt: Attempt, observer: Observer) -> None:
        """Start the worker, however long that takes; or not at all, if its attempt is ended or cancelled before."""
        delay_s = _FIRST_DELAY_S
        while True:
            try:
                return self.launcher.launch(spec, attempt)
            except errors.NoRoomYet as full:
                attempt.record_wait(time.time() + delay_s, full.what)
                observer.waiting(full.what, delay_s)
            left_s = delay_s
            while left_s > 0:
                self.sleep(min(left_s, _LOOK_S))
                left_s -= _LOOK_S
                if attempt.stop_requested() or attempt.ending() is not None:
                    return None
            delay_s = min(2 * delay_s, _LONGEST_DELAY_S)

    def _spec(self, request: WorkRequest, number: int, actor: str, oom_before: int) -> WorkSpec:
        runtime = dict(request.runtime)
        if "micro_batch_divisor" in runtime:
            runtime["micro_batch_divisor"] *= 2**oom_before
        return WorkSpec(
            asset=request.asset,
            store_url=self.store.url,
            store_layout=self.store.layout,
            address=request.address,
            attempt=number,
            identity=request.identity,
            inputs=request.inputs,
            params=request.params,
            runtime=runtime,
            label=request.label,
            actor=actor,
            resources=request.resources,
        )

    def _lives(self, attempt: Attempt) -> bool:
        """Whether the attempt's worker is alive; on another machine, whether its heartbeat is fresh or its launch still
        waits for room."""
        state = self.launcher.state(attempt)
        if state is not LaunchState.UNKNOWN:
            return state is LaunchState.RUNNING
        last_sign = attempt.progress().get("at") or (attempt.wait() or {}).get("until") or attempt.claimed_at()
        return time.time() - float(last_sign) < self.lease_s

    def _wait(self, attempt: Attempt, observer: Observer) -> Ending:
        """Wait for the attempt to end, forwarding its progress to the observer."""
        seen_steps = 0
        last_progress: dict[str, Any] = {}
        checked = heard = time.monotonic()
        while True:
            ending = attempt.ending()
            progress = attempt.progress()
            if progress and progress != last_progress:
                observer.progress(progress)
                last_progress, heard = progress, time.monotonic()
            for number, data in attempt.chunks("steps", seen_steps):
                observer.steps(attempt, number, data)
                seen_steps = number
            if ending is not None:
                # Its leftovers on its machine are uploaded to the store, or removed.
                self.launcher.clean_up(attempt)
                return self._known_better(attempt, ending)
            if time.monotonic() - checked > 1.0:
                checked = time.monotonic()
                if not self._lives(attempt):
                    self.bury(attempt)
                    continue
            silent_s = time.monotonic() - heard
            self.sleep(max(self.poll_s, min(_SILENCE_SHARE * silent_s, _LONGEST_POLL_S)))

    def _known_better(self, attempt: Attempt, ending: Ending) -> Ending:
        """``ending``, or the launcher's if it knows why the worker was asked to stop (a time limit, for example)."""
        if ending.outcome is Outcome.RESIZED:
            # A person who cancels while it saves means the next attempt too. A worker that was not asked may not try
            # forever.
            return attempt.stopped() if attempt.stop_requested() else replace(ending, outcome=Outcome.PREEMPTED)
        if ending.outcome is not Outcome.PREEMPTED or attempt.stop_requested():
            return ending
        found = self.launcher.ending(attempt)
        return ending if found is None or found.outcome is Outcome.DONE else found

    def bury(self, attempt: Attempt) -> None:
        """Record the ending of a worker that is gone and recorded none itself."""
        found = self.launcher.ending(attempt)
        if attempt.stop_requested():
            # To the launcher, a stop by the platform looks like one from outside.
            attempt.record_stopped()
        else:
            outcome = found.outcome if found else Outcome.PREEMPTED
            words = (found.error if found else None) or _found_dead()
            # A success without an artifact is a failure.
            attempt.record_ending(Outcome.PREEMPTED if outcome is Outcome.DONE else outcome, words)
        self.launcher.clean_up(attempt)


def _reached(attempt: Attempt) -> int:
    """Optimizer steps that an attempt at a training is known to have reached; 0 for other work."""
    progress = attempt.progress()
    return int(progress.get("done", 0)) if progress.get("phase") == "training" else 0


def _can_halve(runtime: dict[str, Any], *, halved: int) -> bool:
    """Whether work has a micro-batch of at least two after ``halved`` halvings: else the next attempt would be the same
    again."""
    if "micro_batch_divisor" not in runtime:
        return False
    size = int(runtime.get("micro_batch_size", 2))
    return bool(size // (runtime["micro_batch_divisor"] * 2**halved) > 1)


def _found_dead() -> dict[str, str]:
    return {
        "type": "WorkFailed",
        "what": "the worker ended without a result",
        "where": "",
        "remedy": "Read its log; if the machine is short of memory, use a smaller micro-batch.",
    }


# Not raised again by their own type: some are built from other arguments, and endings the outcome table explains.
_OTHER_ARGUMENTS = (errors.MissingInput, errors.HeldForReview, errors.Deleted, errors.NoStore)
_OF_OTHER_WORDS = (*_OTHER_ARGUMENTS, errors.Diverged, errors.OutOfMemory)


def error_of(ending: Ending, attempt: Attempt, label: str) -> errors.UserError:
    """The worker's own error, rebuilt on this side with the outcome table's message."""
    details = ending.error or {"type": "WorkFailed", "what": "no error was recorded", "where": "", "remedy": ""}
    kind = getattr(errors, details["type"], errors.WorkFailed)
    if not (isinstance(kind, type) and issubclass(kind, errors.UserError)) or kind in _OF_OTHER_WORDS:
        kind = errors.WorkFailed
    if kind is errors.WorkFailed:
        what = f"{attempt.address.asset}: the worker {POLICIES[ending.outcome].message}: {details['what']}"
        remedy = details["remedy"] or f"Read the worker's log: ft logs {attempt.address}"
        return errors.WorkFailed(what, where=details["where"] or f"{label}, {attempt.path}", remedy=remedy)
    return kind(details["what"], where=details["where"], remedy=details["remedy"])
