"""Curation's figures: similarity and personal data beside their peers, then all steps together, file to file.

The curation runs in a process of its own with two worker processes, over generated rows with planted duplicates,
contamination and personal data (see ``datasets_rows``). ``FT_BENCH_ROWS`` sets how many (1,000,000), ``FT_BENCH_10M=1``
adds a run of ten million for memory (about 12 GB of disk and ten minutes); ``FT_REAL_DATA`` names the shared data.
"""

import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import (
    contamination,
    near_copies,
    partition_pages,
    personal_data,
    phone_locales,
    secret_kinds,
    short_copies,
    similarity,
    split_moves,
    suites,
)
from benchmarks.datasets_rows import Planted, suite_items, write_rows
from benchmarks.table import Figure

_ROWS, _MANY = 1_000_000, 10_000_000
_PROCESSES = 2
_MEMORY_MB = 2048
_SAMPLED_S = 0.2
_COMPILED = (
    "ft_assets.workers.datasets.engine.warm, ft_assets.workers.datasets.pipeline, "
    "ft_assets.workers.datasets.similarity.near, duckdb"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One curation: how long it took on the clock and on all cores, the phases in it (by the clock), the memory of all
    its processes, and what it found."""

    seconds: float
    core_seconds: float
    phases: dict[str, float]
    rows: int
    dropped: dict[str, int]
    personal: dict[str, int]
    peak_gb: float

    @property
    def by_phase(self) -> str:
        """For people."""
        return ", ".join(f"{name} {took:.1f} s" for name, took in self.phases.items())


def measure() -> list[Figure]:
    """Run everything: about ten minutes, ten more with ``FT_BENCH_10M``."""
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    figures = similarity.figures(similarity.measure())
    figures += contamination.figures()
    figures += personal_data.figures(personal_data.measure())
    figures += phone_locales.figures()
    figures += secret_kinds.figures()
    figures += split_moves.figures()
    figures += near_copies.figures()
    figures += short_copies.figures()
    figures += suites.figures()
    figures += partition_pages.figures()
    folder = Path(tempfile.mkdtemp(prefix="ft-benchmark-"))
    try:
        _compile(folder / "bytecode")
        figures += _curation(folder, int(os.environ.get("FT_BENCH_ROWS", _ROWS)))
        figures.append(_memory(folder, os.environ.get("FT_BENCH_10M") == "1"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return figures


def _curation(folder: Path, rows: int) -> list[Figure]:
    path = folder / "rows.jsonl"
    planted = write_rows(path, rows)
    run = _run(path, folder / "plain")
    found, due = _found(run, planted)
    rate, per_million = run.rows / run.seconds, 1e6 * run.core_seconds / run.rows
    print(f"curation of {rows:,} rows: {run.by_phase}")
    figures = [
        _figure(
            "curation_examples_s", f"all of curation, {rows:,} rows, examples/s", rate, ">= 60,000", rate >= 60_000
        ),
        _figure(
            "curation_core_us", "… seconds of a core for a million examples", per_million, "<= 33", per_million <= 33
        ),
        _figure("curation_peak_gb", "… its memory at most, maps aside, GB", run.peak_gb, "<= 2", run.peak_gb <= 2),
        _figure("curation_found", "… planted rows found, share", found / due, "1.0", found == due),
    ]
    _run(path, folder / "filling", cache=folder / "store")
    write_rows(path, rows, more=True)
    quick = _run(path, folder / "cached", cache=folder / "store")
    plain = _run(path, folder / "again")
    for what, each in (("1 % more rows, with the cache", quick), ("the same without it", plain)):
        print(f"{what}: {each.by_phase}; {each.core_seconds:.1f} core seconds")
    names = [f"{side}.parquet" for side in ("train", "validation", "holdout")]
    equal = all((folder / "cached" / name).read_bytes() == (folder / "again" / name).read_bytes() for name in names)
    return [
        *figures,
        Figure(
            key="curation_incremental_s",
            what="a version with 1 % more rows, put between the others, s",
            ours=quick.seconds,
            peer=plain.seconds,
            peer_is="the same without the cache",
            goal="< peer",
            met=quick.seconds < plain.seconds,
        ),
        _figure("curation_incremental_equal", "… and its files are byte for byte the same", float(equal), "1", equal),
    ]


def _compile(bytecode: Path) -> None:
    """Leave the modules and kernels compiled, as ``make install`` does: a start that compiles is not what is timed."""
    os.environ["PYTHONPYCACHEPREFIX"] = str(bytecode)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", f"import {_COMPILED}"], env=environment, check=True)


def _found(run: Run, planted: Planted) -> tuple[int, int]:
    """(planted rows that were found, planted rows)."""
    pairs = [
        (run.dropped.get("duplicate", 0), planted.exact),
        (run.dropped.get("near_duplicate", 0), planted.near),
        (run.dropped.get("contaminated", 0), planted.contaminated),
        (run.personal.get("email", 0), planted.personal),
    ]
    return sum(min(found, due) for found, due in pairs), sum(due for _, due in pairs)


def _memory(folder: Path, wanted: bool) -> Figure:
    what = f"memory at most of {_MANY:,} rows, maps aside, GB"
    if not wanted:
        return _figure("curation_peak_gb_10m", f"{what} (set FT_BENCH_10M=1)", None, "<= 2", None)
    for old in folder.iterdir():
        if old.name == "bytecode":
            continue
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    path = folder / "rows.jsonl"
    write_rows(path, _MANY)
    run = _run(path, folder / "many")
    print(f"curation of {_MANY:,} rows: {run.by_phase}")
    what += f" (in {run.seconds:.0f} s, {run.rows / run.seconds:,.0f} examples/s)"
    return _figure("curation_peak_gb_10m", what, run.peak_gb, "<= 2", run.peak_gb <= 2)


def _figure(key: str, what: str, ours: float | None, goal: str, met: bool | None) -> Figure:
    return Figure(key=key, what=what, ours=ours, peer=None, peer_is="", goal=goal, met=met)


def _run(path: Path, output: Path, cache: Path | None = None) -> Run:
    """Curate ``path`` in a fresh process; its memory is looked at every fifth of a second."""
    output.mkdir()
    items = output.with_suffix(".items")
    pq.write_table(pa.table({"text": suite_items()}), items)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        process = pool.submit(os.getpid).result()
        with _peak(process) as peak:
            seconds, cores, phases, rows, dropped, personal = pool.submit(_curate, path, items, output, cache).result()
    return Run(
        seconds=seconds,
        core_seconds=cores,
        phases=phases,
        rows=rows,
        dropped=dropped,
        personal=personal,
        peak_gb=peak[0] / 1e9,
    )


def _curate(
    path: Path, items: Path, output: Path, cache: Path | None
) -> tuple[float, float, dict[str, float], int, dict[str, int], dict[str, int]]:
    """(seconds, those of all cores, by phase, rows, rows left out by reason, personal data by type), with imports."""
    start, before = time.perf_counter(), _core_seconds()
    from ft_assets.workers.datasets.engine.local import start_early

    start_early()
    marks: list[tuple[str, float]] = [("start", start)]

    def progress(phase: str, _rows: int) -> None:
        if marks[-1][0] != phase:
            marks.append((phase, time.perf_counter()))

    from ft_assets.settings.dataset.policy import DatasetPolicy
    from ft_assets.workers.datasets.engine.cache import ChunkCache
    from ft_assets.workers.datasets.intake.spool import spool
    from ft_assets.workers.datasets.pipeline import Inputs, Means, curate_upload
    from ft_assets.workers.datasets.similarity.items import ItemIndex
    from ft_assets.workers.suites.asked import Asked

    policy = DatasetPolicy()
    with tempfile.TemporaryDirectory(dir=output.parent) as name:
        scratch = Path(name)
        index = scratch / "suites.grams"
        (scratch / "curation").mkdir()
        with ThreadPoolExecutor(1) as beside:
            # As ``curate`` does; the upload is hashed meanwhile.
            upload = beside.submit(spool, path, path.name, scratch / "spools", role="upload", text=policy.text)
            texts = pq.read_table(items).column("text").to_pylist()
            ItemIndex.build([("generated", [Asked.of(text, []) for text in texts])], index)
        spools = [upload.result()]
        report, _ = curate_upload(
            Inputs(spools=spools, policy=policy, index=index, suites=("generated",), suite_digests=("generated",)),
            output,
            Means(
                scratch=scratch / "curation",
                memory_bytes=_MEMORY_MB << 20,
                processes=_PROCESSES,
                cache=ChunkCache(store_url=str(cache), tenant="benchmark") if cache else None,
                progress=progress,
            ),
        )
        end = time.perf_counter()
    times = [at for _, at in marks] + [end]
    phases = {phase: after - at for (phase, at), after in zip(marks, times[1:], strict=True)}
    return end - start, _core_seconds() - before, phases, report.rows_read, report.dropped, report.personal_data


def _core_seconds() -> float:
    """Of this process and those that it has or had."""
    every = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(sum(each.cpu_times()[:4]) for each in every)


@contextmanager
def _peak(root: int) -> Iterator[list[int]]:
    """The most bytes that ``root`` and its descendants had together of their own, files that they map left out."""
    most, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(_SAMPLED_S):
            try:
                processes = [psutil.Process(root), *psutil.Process(root).children(recursive=True)]
            except psutil.NoSuchProcess:
                continue
            most[0] = max(most[0], sum(_own_bytes(each.pid) for each in processes))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()


def _own_bytes(process: int) -> int:
    """Memory that is backed by no file. psutil's figures count pages of mapped files as the process's own."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except FileNotFoundError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))
