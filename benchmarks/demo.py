"""The main job's figures: fresh clone to finished demo, loading, start of training, and the cost of a cached asset.

The demo runs in a fresh clone of the committed tree, environment included, with the package index's cache as it is;
the other figures are measured on the state that it leaves behind.
"""

import json
import os
import resource
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import psutil

from benchmarks.table import Figure
from docs.site.layouts import LAYOUTS, read

ROOT = Path(__file__).resolve().parent.parent


def measure() -> list[Figure]:
    """Run everything; takes about four minutes on two idle cores."""
    folder = Path(tempfile.mkdtemp(prefix="ft-benchmark-"))
    try:
        clone = folder / "clone"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        wall, install, peak = _make_demo(clone)
        # Before the probe, whose runs leave submissions that nothing ends.
        status = _cpu_seconds([str(clone / ".venv" / "bin" / "ft"), "status"], clone)
        inner = _probe(clone)
        load = min(_python_seconds("import ft_assets.definitions", clone) for _ in range(5))
        dagster = min(_python_seconds("import dagster", clone) for _ in range(5))
        trl = min(_python_seconds("import trl", clone) for _ in range(3))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    to_training = inner["step_to_first_step_s"] - trl
    return [
        Figure(
            key="demo_wall_s",
            what="fresh clone to finished demo, s",
            ours=wall,
            peer=install,
            peer_is="its installation alone",
            goal="<= 180",
            met=wall <= 180,
        ),
        Figure(
            key="demo_train_s",
            what="the demo's training, s",
            ours=inner["train_s"],
            peer=None,
            peer_is="",
            goal="<= 90",
            met=inner["train_s"] <= 90,
        ),
        Figure(
            key="load_definitions_ratio",
            what="load the definitions / import dagster",
            ours=load / dagster,
            peer=1.0,
            peer_is=f"import dagster, {dagster:.2f} s",
            goal="<= 2",
            met=load / dagster <= 2,
        ),
        Figure(
            key="step_to_training_s",
            what="checkpoint step to first optimizer step, beyond import trl, s",
            ours=to_training,
            peer=trl,
            peer_is="import trl",
            goal="<= 10",
            met=to_training <= 10,
        ),
        Figure(
            key="cached_asset_s",
            what="a cached asset adds to its run, s",
            ours=inner["cached_asset_s"],
            peer=inner["empty_asset_s"],
            peer_is="an asset that returns at once",
            goal="< 0.5",
            met=inner["cached_asset_s"] < 0.5,
        ),
        Figure(
            key="status_cpu_s",
            what="CPU of `ft status` on the demo's store, s",
            ours=status,
            peer=None,
            peer_is="",
            goal="< 0.5",
            met=status < 0.5,
        ),
        Figure(
            key="wrong_red_checks",
            what="checks that Dagster shows as not passed though no gate failed",
            ours=inner["wrong_red_checks"],
            peer=None,
            peer_is="",
            goal="0",
            met=inner["wrong_red_checks"] == 0,
        ),
        Figure(
            key="peak_rss_gb",
            what="peak memory of the demo's processes, GB",
            ours=peak,
            peer=None,
            peer_is="",
            goal="< 3",
            met=peak < 3,
        ),
        layouts_accepted(),
    ]


def layouts_accepted() -> Figure:
    """How many of the documented layouts of rows are read as documented."""
    accepted = sum(read(layout) == layout.becomes for layout in LAYOUTS)
    return Figure(
        key="layouts_accepted",
        what="documented layouts of rows read as documented",
        ours=float(accepted),
        peer=float(len(LAYOUTS)),
        peer_is="layouts documented",
        goal="all",
        met=accepted == len(LAYOUTS),
    )


def _make_demo(clone: Path) -> tuple[float, float, float]:
    """Seconds of ``make demo`` and of its installation, and the peak memory of all its processes in GB."""
    start = time.monotonic()
    process = subprocess.Popen(["make", "demo"], cwd=clone, env=_clean_environment())
    peak = _PeakMemory(process.pid)
    installed = start
    while process.poll() is None:
        if installed == start and (clone / ".venv" / ".train").exists():
            installed = time.monotonic()
        time.sleep(0.2)
    peak.stop()
    if process.returncode != 0:
        raise SystemExit(f"make demo failed with {process.returncode}")
    return time.monotonic() - start, installed - start, peak.gigabytes


def _clean_environment() -> dict[str, str]:
    """The environment without the settings of the checkout that measures; Python keeps what it compiled, as it does
    for users."""
    own = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    return {k: v for k, v in os.environ.items() if not k.startswith(("FT_", "DAGSTER_")) and k not in own}


class _PeakMemory:
    """Samples the memory of a process and all its descendants (proportional share, so shared pages count once).

    The kernel walks every page for it, 40 ms a gigabyte: two samples a second made the demo 20 s slower.
    """

    def __init__(self, pid: int) -> None:
        self.gigabytes = 0.0
        self._process = psutil.Process(pid)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while not self._stop.wait(2):
            total = 0
            try:
                family = [self._process, *self._process.children(recursive=True)]
            except psutil.NoSuchProcess:
                return
            for process in family:
                try:
                    total += process.memory_full_info().pss
                except (psutil.NoSuchProcess, psutil.AccessDenied):
                    continue
            self.gigabytes = max(self.gigabytes, total / 1e9)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def _python_seconds(code: str, clone: Path) -> float:
    """Seconds that a program takes in the clone's environment."""
    command = [str(clone / ".venv" / "bin" / "python"), "-c", code]
    start = time.monotonic()
    subprocess.run(command, check=True, cwd=clone, env=_state_of(clone), stderr=subprocess.DEVNULL)
    return time.monotonic() - start


def _cpu_seconds(command: list[str], clone: Path) -> float:
    """The least user and system time of ten runs of a command in the clone."""
    found = []
    for _ in range(10):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, cwd=clone, env=_state_of(clone), capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


def _state_of(clone: Path) -> dict[str, str]:
    """The environment in which the clone's commands find what its demo left."""
    return {
        **_clean_environment(),
        "DAGSTER_HOME": str(clone),
        "FT_STATE": str(clone / ".ft" / "dagster"),
        "FT_STORE": str(clone / ".ft" / "store"),
    }


def _probe(clone: Path) -> dict[str, float]:
    """Run ``benchmarks.demo_probe`` in the clone's environment, on the state the demo left."""
    command = [str(clone / ".venv" / "bin" / "python"), "-m", "benchmarks.demo_probe"]
    done = subprocess.run(command, cwd=clone, env=_state_of(clone), check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures
