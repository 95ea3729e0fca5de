"""``python -m benchmarks cluster [PART …]``: what running on a cluster costs, and whether faults leave it whole.

The parts ``quotas``, ``month`` and ``packing`` simulate. All others run on the cluster of ``tests/cluster``: a real API
over HTTP and real processes, on this machine. Without a PART all of them are measured, one after the other; each one's
figures are printed when it is done, as the last may take an hour. Smaller numbers than the goals' prove the program and
meet no goal.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks import (
    cluster_admission,
    cluster_capacity,
    cluster_chaos,
    cluster_drills,
    cluster_finetunes,
    cluster_month,
    cluster_packing,
    cluster_restart,
    cluster_waiting,
    cluster_watches,
    replay,
)
from benchmarks.cluster_finetunes_asked import ask
from benchmarks.table import Figure, bound_figure, goal_figure


def measure(*arguments: str) -> list[Figure]:
    """The figures of the parts that are asked for, of all where none is named."""
    asked = _arguments(arguments)
    figures: list[Figure] = []
    for name, part in _PARTS.items():
        if name in asked.parts or not asked.parts:
            began = time.monotonic()
            with tempfile.TemporaryDirectory(prefix=f"ft-{name}-") as folder, _own_environment():
                figures += (found := part(Path(folder), asked))
            told = ", ".join(f"{figure.key} {figure.ours:g}" for figure in found if figure.ours is not None)
            print(f"{name}, {time.monotonic() - began:.0f} s: {told}", file=sys.stderr, flush=True)
    return figures


def _admission(folder: Path, asked: argparse.Namespace) -> list[Figure]:
    slowest = cluster_admission.slowest_admission_s(folder)
    return [bound_figure("admission_to_pod_s", "admission to pod, the slowest of 20, s", slowest, "< 1", 1.0)]


def _waiting(folder: Path, asked: argparse.Namespace) -> list[Figure]:
    cost = cluster_waiting.waiting_cost(folder, queued=asked.queued, running=asked.running)
    whole = asked.queued >= cluster_waiting.QUEUED and asked.running >= cluster_waiting.RUNNING
    around = f"beside {asked.queued} queued and {asked.running} running Jobs"
    return [
        bound_figure("waiting_run_rss_mb", f"memory of a waiting run {around}, MB", cost.rss_mb, "< 250", 250.0, whole),
        bound_figure("waiting_run_cpu_share", "CPU of it, part of a core", cost.cpu_share, "<= 0.01", 0.0101, whole),
        bound_figure(
            "waiting_run_requests_per_10s",
            "requests to the API beside its one watch, in 10 s",
            cost.requests_per_10s,
            "<= 1",
            1.01,
            whole,
        ),
    ]


def _watches(folder: Path, asked: argparse.Namespace) -> list[Figure]:
    return cluster_watches.figures(folder, queued=asked.watched)


def _capacity(folder: Path, asked: argparse.Namespace) -> list[Figure]:
    ticks = cluster_capacity.figures(folder, submitted=asked.submitted, queued=asked.watched)
    return [*ticks, *cluster_restart.figures(folder, submitted=asked.submitted)]


def _quotas(folder: Path, asked: argparse.Namespace) -> list[Figure]:
    found = float(replay.replay()["quota_violations"])
    return [bound_figure("quota_violations", "quotas broken in a replayed week of 1,000 submissions", found, "0", 0.5)]


def _finetunes(folder: Path, asked: argparse.Namespace) -> list[Figure]:
    found = cluster_finetunes.fine_tunes(*ask(folder, asked.finetunes))
    if found.problems:
        print("fine-tunes:", *found.problems, sep="\n  ", file=sys.stderr, flush=True)
    goal = cluster_finetunes.FINE_TUNES
    whole = min(found.done, found.at_once) == asked.finetunes and not found.problems
    return [
        Figure(
            key="concurrent_finetunes_done",
            what=f"fine-tunes of the demo's base, done in {found.seconds:.0f} s",
            ours=found.done,
            peer=found.at_once,
            peer_is="trainings that ran at one time",
            goal=f"{goal} of {goal} at once",
            met=None if whole and asked.finetunes < goal else whole,
        )
    ]


def _chaos(folder: Path, asked: argparse.Namespace) -> list[Figure]:
    return cluster_chaos.figures(cluster_chaos.measure(folder, asked.chaos_runs))


def _month(folder: Path, asked: argparse.Namespace) -> list[Figure]:
    return cluster_month.figures(days=float(asked.days))


def _packing(folder: Path, asked: argparse.Namespace) -> list[Figure]:
    return cluster_packing.figures()


def _drills(folder: Path, asked: argparse.Namespace) -> list[Figure]:
    told = {
        "restore_equal": "the same answers from bucket versions and an empty database",
        "upgrade_in_flight_ok": "an earlier release's work in flight ends well",
        "elastic_bytes_equal": "an adapter trained on 2, 4 and 1 processes has the bytes of one trained on 1",
    }
    return [goal_figure(key, what, float(cluster_drills.drill(key)), 1.0) for key, what in told.items()]


_PARTS: Mapping[str, Callable[[Path, argparse.Namespace], list[Figure]]] = {
    "admission": _admission,
    "waiting": _waiting,
    "watches": _watches,
    "capacity": _capacity,
    "quotas": _quotas,
    "month": _month,
    "packing": _packing,
    "finetunes": _finetunes,
    "chaos": _chaos,
    "drills": _drills,
}


@contextmanager
def _own_environment() -> Iterator[None]:
    """What a part sets for its processes is not there for the next part's."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _arguments(arguments: tuple[str, ...]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks cluster", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(_PARTS)}; all where none is named")
    for name, default, what in (
        ("queued", cluster_waiting.QUEUED, "Jobs in the queue beside a waiting run"),
        ("running", cluster_waiting.RUNNING, "Jobs that run beside a waiting run"),
        ("watched", cluster_watches.QUEUED, "queued Jobs of watches and capacity"),
        ("submitted", cluster_capacity.SUBMITTED, "submissions of capacity"),
        ("finetunes", cluster_finetunes.FINE_TUNES, "fine-tunes at once"),
        ("days", int(cluster_month.DAYS), "days of the simulated month"),
        ("chaos-runs", cluster_chaos.RUNS, "runs that meet a fault"),
    ):
        parser.add_argument(f"--{name}", type=_positive, default=default, metavar="N", help=f"{what} ({default})")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.parts) - set(_PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(_PARTS)}")
    return asked


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number
