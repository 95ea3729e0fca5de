"""The worker: ``python -m ft_assets.worker SPEC``, where SPEC is a file or ``<store url>#<place in the store>``.

It needs the store and, for training and evaluation, the ``train`` extra; it does not import Dagster. It writes its
outcome to ``outcome.json`` beside its progress, then exits with the outcome's code.
"""

import errno
import os
import shutil
import sys
import tempfile
import time
import traceback
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path

from ft_assets.settings.catalogue.exports import EXPORTS
from ft_assets.settings.layout import node_rank
from ft_resources.artifacts import Address
from ft_resources.attempts import Attempt
from ft_resources.errors import BadData, Diverged, NodeFault, OutOfMemory, StoreUnavailable, UserError
from ft_resources.outcomes import EXIT_CODES, Outcome
from ft_resources.process_trees import kill_children
from ft_resources.store import Store
from ft_resources.work import WorkSpec, attempt_path
from ft_resources.worker_context import Preempted, WorkContext, WorkResult

# Asset name to "module:function"; imported only in the worker that does the work.
WORK: dict[str, str] = {
    "dataset": "ft_assets.workers.datasets.curate:curate",
    "base_model": "ft_assets.workers.base_models.mirror:mirror",
    "baseline_report": "ft_assets.workers.evals.baseline:score_baseline",
    "token_pack": "ft_assets.workers.packs.build:build_pack",
    "reference_logps": "ft_assets.workers.training.reference:reference_logps",
    "checkpoint": "ft_assets.workers.training.train:train",
    "eval_report": "ft_assets.workers.evals.evaluate:evaluate",
    "adapter": "ft_assets.workers.adapters.export:export_adapter",
    "ungated": "ft_assets.workers.adapters.export:export_adapter",
    **{each.asset: each.work for each in EXPORTS.values()},
}


def run_spec(spec: WorkSpec, log: Path) -> Outcome:
    """Do the work of ``spec``: publish its artifact and record how it ended. Raises only SystemExit."""
    store = spec.open_store()
    keep = os.environ.get("FT_SCRATCH")
    with tempfile.TemporaryDirectory(prefix=f"ft-{spec.asset}-", dir=keep) as scratch:
        context = WorkContext(spec, store, Path(scratch))
        context.install_signal_handler()
        context.end_overdue(partial(_end_overdue, store, spec, context.scratch))
        context.start_heartbeat(log)
        error: dict[str, str] | None = None
        try:
            context.stand_down()
            result = _load(spec.asset)(context)
            context.progress("publishing")
            context.artifacts.publish(
                spec.address,
                result.folder,
                writer=f"w{spec.attempt:04d}-{uuid.uuid4().hex[:8]}",
                identity=spec.identity,
                inputs=spec.inputs,
                facts=result.facts,
                actor=spec.actor,
            )
            context.settle()
            outcome = Outcome.DONE
            drop_saves(store, spec.address, [*spec.previous, spec.attempt])
            context.progress("done")
        except BaseException as problem:
            context.settle()
            outcome = _classify(problem, store, spec, stopped=context.stop_requested)
            error = _explain(problem)
            if not isinstance(problem, Preempted):
                traceback.print_exc()
        context.end_heartbeat(log)
        try:
            store.create_json(f"{spec.attempt_path}/outcome.json", _ending(outcome, error))
        except StoreUnavailable as problem:
            # The exit code still tells a full disk from a killed worker, which would be retried 20 times.
            print(f"the outcome {outcome} could not be recorded: {problem}", file=sys.stderr, flush=True)
    return outcome


def follow_spec(spec: WorkSpec) -> Outcome:
    """Do a further node's part of the work of ``spec``. Only the first node's worker reports for the attempt; this one
    reports nothing but a fault of a machine. Raises nothing."""
    store = spec.open_store()
    with tempfile.TemporaryDirectory(prefix=f"ft-{spec.asset}-", dir=os.environ.get("FT_SCRATCH")) as scratch:
        context = WorkContext(spec, store, Path(scratch))
        context.install_signal_handler()
        try:
            _load(spec.asset)(context)
        except BaseException as problem:
            if not isinstance(problem, Preempted):
                traceback.print_exc()
            outcome = _classify(problem, store, spec, stopped=context.stop_requested)
            if isinstance(problem, NodeFault):
                # The first node's worker may have nobody left who could tell it.
                with suppress(StoreUnavailable):
                    store.create_json(f"{spec.attempt_path}/outcome.json", _ending(outcome, _explain(problem)))
            return outcome
    return Outcome.DONE


def drop_saves(store: Store, address: Address, attempts: Iterable[int]) -> None:
    """Remove what these attempts saved for resuming, once the artifact exists; what cannot be removed stays."""
    for attempt in attempts:
        for folder in ("saves", "books", "kept"):
            with suppress(StoreUnavailable):
                for entry in list(store.entries(f"{attempt_path(address, attempt)}/{folder}")):
                    store.delete(entry.path)


def _end_overdue(store: Store, spec: WorkSpec, scratch: Path, problem: BaseException) -> None:
    """End the process with ``problem``, whatever it is doing; nothing half-written is visible to readers."""
    kill_children()
    outcome = _classify(problem, store, spec, stopped=False)
    with suppress(StoreUnavailable):
        store.create_json(f"{spec.attempt_path}/outcome.json", _ending(outcome, _explain(problem)))
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(EXIT_CODES[outcome])


def _ending(outcome: Outcome, error: dict[str, str] | None) -> dict[str, object]:
    return {"outcome": outcome, "error": error, "at": time.time()}


def _load(asset: str) -> Callable[[WorkContext], WorkResult]:
    module, function = WORK[asset].split(":")
    work: Callable[[WorkContext], WorkResult] = getattr(import_module(module), function)
    return work


def _classify(problem: BaseException, store: Store, spec: WorkSpec, *, stopped: bool) -> Outcome:
    """The outcome for an exception that ended the work."""
    # A stop during an import or a callback surfaces as whatever exception the library turns it into.
    if stopped or isinstance(problem, Preempted | KeyboardInterrupt):
        attempt = Attempt(store, spec.address, spec.attempt)
        return attempt.stopped_as() if attempt.stop_requested() else Outcome.PREEMPTED
    if isinstance(problem, Diverged):
        return Outcome.DIVERGED
    if isinstance(problem, OutOfMemory | MemoryError) or type(problem).__name__ == "OutOfMemoryError":
        return Outcome.OUT_OF_MEMORY
    if isinstance(problem, BadData):
        return Outcome.BAD_DATA
    if isinstance(problem, UserError) and not isinstance(problem, StoreUnavailable | NodeFault):
        return Outcome.USER_ERROR
    return Outcome.PLATFORM_ERROR


def _explain(problem: BaseException) -> dict[str, str]:
    """The error as JSON; an unexpected one gives its type and message, and its traceback is in the log."""
    if isinstance(problem, UserError):
        return {
            "type": type(problem).__name__,
            "what": problem.what,
            "where": problem.where,
            "remedy": problem.remedy,
        }
    # Libraries raise it as various types, with the operating system's message.
    if os.strerror(errno.ENOSPC) in str(problem):
        scratch = os.environ.get("FT_SCRATCH") or tempfile.gettempdir()
        remedy = "Free space there, or set FT_SCRATCH to a folder on a larger disk."
        return {
            "type": "DiskFull",
            "what": f"the worker's disk is full: {problem}"[:2000],
            "where": scratch,
            "remedy": remedy,
        }
    return {"type": type(problem).__name__, "what": str(problem)[:2000], "where": "", "remedy": ""}


def read_spec(location: str) -> WorkSpec:
    """The spec in a file, or in a store as ``WorkSpec.location`` says. Raises NoStore."""
    url, _, place = location.rpartition("#")
    data = Path(location).read_bytes() if not url else Store(url, create=False).get(place)
    return WorkSpec.model_validate_json(data)


def main() -> None:
    """Entry point of the process; a log file named by FT_WORKER_LOG is shipped to the store as it grows."""
    spec = read_spec(sys.argv[1])
    if spec.runtime.get("nodes", 1) > 1 and node_rank():
        outcome = follow_spec(spec)
    else:
        outcome = run_spec(spec, Path(os.environ.get("FT_WORKER_LOG", "/nonexistent")))
    if folder := os.environ.get("FT_WORKER_FOLDER"):
        shutil.rmtree(folder, ignore_errors=True)
    # Libraries leave threads and atexit hooks behind that can hang or change the exit code.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_CODES[outcome])


if __name__ == "__main__":
    # Under its own name: ``__main__`` would be a second module, with its own WORK and exception classes.
    import_module("ft_assets.worker").main()
