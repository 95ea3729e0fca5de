"""A training killed at random moments, and what saving costs one that is left alone.

Real workers on a tiny model are ended by SIGTERM and SIGKILL in turn, each at a moment drawn over the length of a quiet
run, started again, and compared with the quiet run: the bytes of the result, and the proof of the ledger. They are
forked from a process that has imported the libraries, as a hundred imports would take most of an hour.
"""

import os
import random
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.table import Figure
from ft_resources.artifacts import EXPLAINING_FOLDERS, Artifact, Artifacts
from ft_resources.outcomes import EXIT_CODES, Outcome
from tests.workers.training.conftest import Bench, make_bench
from tests.workers.training.forks import Fork, Forks

KILLS = 100
_SEED = 5
_KILLED: dict[str, Any] = {"epochs": 6, "validate_every_steps": 7}
# Without dropout adapters are computed together with their layers, with it they draw random numbers.
_DROPOUTS = (0.1, 0.0)
_TIMEOUT_S = 600.0
_ATTEMPTS = 5
# Steps of some tens of milliseconds: nowhere does standing still weigh more.
_SAVED: dict[str, Any] = {"epochs": 40}
_CADENCE = 20


def measure(kills: int = KILLS) -> dict[str, float]:
    """``kill_runs`` runs of which ``kill_identical`` ended with a quiet run's bytes and a clean ledger, and
    ``checkpoint_stall_ratio``: the part of training time that went into saves every 20 steps."""
    with tempfile.TemporaryDirectory(prefix="ft-kills-") as folder:
        root = Path(folder)
        stall = _stall_ratio(root / "stall")
        forks = Forks(root)
        forks.begin(os.getpid())
        found = [_killed(forks, root / f"dropout-{one}", kills // len(_DROPOUTS), one) for one in _DROPOUTS]
        runs, identical = (sum(part) for part in zip(*found, strict=True))
    return {"kill_runs": runs, "kill_identical": identical, "checkpoint_stall_ratio": stall}


def figures(found: dict[str, float]) -> list[Figure]:
    """Table rows of what ``measure`` found."""
    runs, identical, stall = (found[key] for key in ("kill_runs", "kill_identical", "checkpoint_stall_ratio"))
    return [
        Figure(
            key="kill_runs",
            what="runs killed at a random moment, by SIGTERM and SIGKILL in turn",
            ours=runs,
            peer=None,
            peer_is="",
            goal=f"{KILLS}",
            met=runs >= KILLS,
        ),
        Figure(
            key="kill_identical",
            what="of these, ended with a quiet run's bytes and a clean ledger",
            ours=identical,
            peer=runs,
            peer_is="runs killed",
            goal="all",
            met=identical == runs,
        ),
        Figure(
            key="checkpoint_stall_ratio",
            what=f"part of training time that stood still for saves every {_CADENCE} steps",
            ours=stall,
            peer=None,
            peer_is="",
            goal="< 0.01",
            met=stall < 0.01,
        ),
    ]


def _killed(forks: Forks, root: Path, kills: int, dropout: float) -> tuple[int, int]:
    """Runs that were killed, and how many of them came to a quiet run's end."""
    quiet = make_bench(root / "quiet", dropout=dropout, **_KILLED)
    began = time.monotonic()
    _require_done(_start(forks, quiet, root / "quiet", 1))
    seconds = time.monotonic() - began
    expected = _content(_result(quiet))
    draws, runs, identical = random.Random(_SEED), 0, 0
    for number in range(3 * kills):
        if runs == kills:
            break
        folder = root / f"run-{number}"
        bench = make_bench(folder, dropout=dropout, **_KILLED)
        began = time.monotonic()
        worker = _start(forks, bench, folder, 1)
        time.sleep(draws.uniform(0, seconds))
        worker.send(signal.SIGTERM if runs % 2 == 0 else signal.SIGKILL)
        if worker.wait(_TIMEOUT_S) == EXIT_CODES[Outcome.DONE]:
            # Done before it was killed, which proves nothing: the first run was slower.
            seconds = min(seconds, time.monotonic() - began)
        else:
            runs += 1
            identical += _ends_like(forks, bench, folder, expected)
    return runs, identical


def _ends_like(forks: Forks, bench: Bench, folder: Path, expected: dict[str, bytes]) -> bool:
    """Start the run again until it is done; whether its result has these bytes, and a ledger that proves itself."""
    from ft_assets.workers.training.data_ledger import prove

    for attempt in range(2, _ATTEMPTS):
        if _start(forks, bench, folder, attempt).wait(_TIMEOUT_S) == EXIT_CODES[Outcome.DONE]:
            break
    result = Artifacts(bench.store).find(bench.spec().address)
    if result is None or _content(result) != expected:
        return False
    return not prove(Artifacts(bench.store), result, folder / "proof").findings


def _stall_ratio(root: Path) -> float:
    """Seconds in which training stood still for its saves, as a part of all its seconds."""
    from ft_assets.workers.training.saver import Saver
    from ft_assets.workers.training.train import train

    bench = make_bench(root, **_SAVED)
    bench.runtime["checkpoint_every_steps"] = _CADENCE
    save, stood = Saver.save, list[float]()

    def timed(self: Saver, *arguments: Any) -> float:
        stood.append(save(self, *arguments))
        return stood[-1]

    Saver.save = timed  # type: ignore[method-assign, assignment]
    try:
        result = train(bench.context())
    finally:
        Saver.save = save  # type: ignore[method-assign]
    return sum(stood) / float(result.facts["seconds"])


def _start(forks: Forks, bench: Bench, folder: Path, attempt: int) -> Fork:
    spec = folder / f"spec-{attempt}.json"
    spec.write_text(bench.spec(attempt).model_dump_json())
    return forks.start(spec, folder)


def _require_done(worker: Fork) -> None:
    if worker.wait(_TIMEOUT_S) != EXIT_CODES[Outcome.DONE]:
        raise RuntimeError(worker.log.read_text())


def _result(bench: Bench) -> Artifact:
    return Artifacts(bench.store).get(bench.spec().address)


def _content(artifact: Artifact) -> dict[str, bytes]:
    names = [name for name in artifact.manifest.files if not name.startswith(EXPLAINING_FOLDERS)]
    return {name: artifact.read(name) for name in names}
