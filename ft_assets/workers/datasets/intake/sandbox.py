"""Runs the reader of a hostile format in a separate process with limits: any crash is blamed on the file.

The process is started from scratch (not forked from a program with threads) and gets no credentials in its environment.
It limits its memory, processor time and file size before it opens the file, and is killed when its time is up. It
writes to a temporary name; the target appears only when it is complete.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ft_assets
from ft_assets.settings.catalogue.forms import ROW_FORMS
from ft_assets.workers.datasets.intake.file_refusals import crashed, too_much_memory, too_slow
from ft_assets.workers.datasets.intake.kinds import Kind
from ft_assets.workers.datasets.intake.limits import ReadLimits
from ft_resources.errors import BadData, UserError

CHILD = "ft_assets.workers.datasets.intake.child"
# What an interpreter needs to start; it includes no credentials of the platform.
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "VIRTUAL_ENV")
_REPLY_BYTES = 1 << 20
_GRACE_S = 15.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """Read ``path`` as a file of ``kind`` named ``name``, and write its rows to ``target``."""

    path: Path
    name: str
    kind: Kind
    target: Path
    chunk_characters: int
    pdf_tables: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """A reader's findings: whether a file named JSON holds JSON lines (then there may be no target), how many pictures
    there are, which are not read, and whether only its first rows were read; the last of them may be a part of one."""

    is_lines: bool
    pictures: int
    cut: bool


def run_reader(job: Job, limits: ReadLimits) -> Read:
    """Do ``job``.

    Raises:
        BadData: the file cannot be read, or not within ``limits``. No partial output remains.
        UserError: a package that reads this format is not installed.
    """
    partial = job.target.with_name(f".{job.target.name}.partial")
    seconds = limits.seconds_for(job.path.stat().st_size)
    order = {
        "path": str(job.path.absolute()),
        "name": job.name,
        "format": job.kind.format,
        "codec": job.kind.codec,
        "target": str(partial.absolute()),
        "chunk_characters": job.chunk_characters,
        "pdf_tables": job.pdf_tables,
        "fields": sorted({field for way in ROW_FORMS.values() for field in (*way.row.needs, *way.row.may_have)}),
    }
    try:
        reply = run_limited(CHILD, order, name=job.name, limits=limits, seconds=seconds)
        if reply.get("missing"):
            raise UserError(
                f"files of this format need the package {reply['missing']!r:.100}",
                where=job.name,
                remedy="Install the project with its dependencies where datasets are added and curated.",
            )
        if reply.get("what"):
            what, where, remedy = (str(reply.get(field, ""))[:2000] for field in ("what", "where", "remedy"))
            raise BadData(what, where=where, remedy=remedy)
        if partial.exists():
            partial.replace(job.target)
        pictures = reply.get("pictures")
        return Read(
            is_lines=reply.get("is") == "jsonl",
            pictures=pictures if isinstance(pictures, int) else 0,
            cut=bool(reply.get("cut")),
        )
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()
        with suppress(FileNotFoundError):
            partial.with_suffix(".unpacked").unlink()


def run_limited(module: str, order: dict[str, Any], *, name: str, limits: ReadLimits, seconds: float) -> dict[str, Any]:
    """The reply of a process that runs ``module`` and limits itself; ``order`` is JSON, to which its limits are added.

    Args:
        name: the file that is blamed.
        seconds: how long it may take, by the clock and of processor time.

    Raises BadData if it did not reply.
    """
    order = {**order, "limits": asdict(limits), "cpu_seconds": int(seconds) + 1}
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            # -P: a file named json.py next to the upload must not be imported.
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=_environment(),
            start_new_session=True,
        )
        try:
            child.communicate(json.dumps(order).encode(), timeout=seconds + _GRACE_S)
        except subprocess.TimeoutExpired:
            raise too_slow(name, seconds) from None
        finally:
            _kill(child)
        output.seek(0)
        data = output.read(_REPLY_BYTES)
    if child.returncode in (-signal.SIGXCPU, -signal.SIGALRM):
        raise too_slow(name, seconds)
    if child.returncode == -signal.SIGKILL:
        raise too_much_memory(name, limits.memory_bytes)
    with suppress(ValueError):
        reply = json.loads(data)
        if child.returncode == 0 and isinstance(reply, dict):
            return reply
    ended = signal.Signals(-child.returncode).name if child.returncode < 0 else f"exit code {child.returncode}"
    raise crashed(name, ended, limits.memory_bytes)


def _environment() -> dict[str, str]:
    source = str(Path(ft_assets.__file__).parents[1])
    search = [source, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        **{name: os.environ[name] for name in _PASSED_ON if name in os.environ},
        "PYTHONPATH": os.pathsep.join(search),
        # Pools and threads that reserve address space would count against the memory limit.
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "ARROW_IO_THREADS": "1",
        "MALLOC_ARENA_MAX": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill the child and every process it started."""
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    child.wait()
