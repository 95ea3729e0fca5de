"""Programs that a model wrote, run only in a sandbox; for the worker only.

What is contained (``sandbox_process.py``): the program has its own user, process, network, mount and IPC namespaces. It
sees the interpreter's library, the shared libraries and those of ``Limits.libraries``, read-only, and an empty ``/tmp``
in memory, and nothing else of the machine: no ``/etc``, ``/proc``, ``/dev``, home or working folder, no environment, no
network device, no other processes. It runs as nobody, without capabilities, and cannot get any; time, CPU, memory,
files and processes are limited.

What is not: system calls are not filtered (seccomp) except those that make namespaces, or memory that no limit counts
(System V's, memfd), so a hole in the kernel is a hole here; memory is limited per process, not in total; caches and
timing are shared with the machine.

Where the verdict is made: in the tests' own process, which the program cannot see, read, trace or write for. It gets
calls and gives values (``sandbox_calls.py``), so it passes by values that are right and by nothing else.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, Strict

from ft_resources.errors import UserError
from ft_resources.settings import Settings

SWITCH, ON = "FT_RUN_CODE", "sandbox"
State = Literal["passed", "failed", "timeout"]
_SCRIPT, *_MODULES = (Path(__file__).with_name(f"sandbox_{name}.py") for name in ("process", "values", "calls"))
# For starting the interpreter and the namespaces, in addition to the program's own time.
_MORE_S = 30.0
# A probe: nothing of the machine may be seen or reached, and computing must work.
_PROBE = """
import ctypes, os, socket
assert sum(range(10)) == 45
assert ctypes.CDLL(None).unshare(0x10000000) == -1
assert sorted(os.listdir("/tmp")) == [] and not os.path.exists("/etc") and not os.path.exists("/proc")
assert not os.environ and os.getuid() == 65534
try:
    socket.create_connection(("127.0.0.1", 9), timeout=1)
    raise SystemExit
except OSError:
    pass
try:
    open("/x", "w")
    raise SystemExit
except OSError:
    pass
"""


class Limits(Settings):
    """What a program may use."""

    timeout_s: float = Field(5.0, gt=0.0, le=120.0, description="Longest run of one program in seconds.")
    memory_mb: int = Field(512, ge=64, le=16_384, description="Most memory of each process in MiB.")
    files_mb: int = Field(16, ge=1, le=1024, description="Most files in MiB; they also take memory.")
    processes: int = Field(4, ge=0, le=64, description="Most further processes or threads.")
    libraries: Annotated[tuple[Literal["numpy"], ...], Strict(False)] = Field(
        (), description="Installed libraries that programs may import, besides Python's own."
    )


class SandboxUnavailable(UserError):
    """Programs cannot be contained here, so none is run."""


def require_sandbox() -> None:
    """Raise SandboxUnavailable unless the platform allows model-written programs and the sandbox contains one."""
    if os.environ.get(SWITCH) != ON:
        raise SandboxUnavailable(
            "this suite runs programs that a model wrote, and the platform does not allow that",
            where=f"environment variable {SWITCH}",
            remedy=f"Set {SWITCH}={ON} for the workers (docs/how-to/own-suite.md says what the sandbox prevents and "
            "what not), or leave the suite out of the recipe.",
        )
    _probe()


def run_program(program: str, limits: Limits, *, tests: str = "", names: Sequence[str] = ()) -> State:
    """``passed`` if ``program`` ran to its end without an exception, and then ``tests``, both Python texts.

    Args:
        tests: run in another process than the program, of which they have only ``names``: its functions' values.
            Without tests, the program itself is believed.

    Raises SandboxUnavailable, and runs nothing, if any part of the sandbox is unavailable.
    """
    with tempfile.TemporaryDirectory(prefix="ft-sandbox-") as folder:
        job: dict[str, Any] = {"modules": [str(path) for path in _MODULES], "folder": folder, **limits.model_dump()}
        job["libraries"] = [str(path) for name in limits.libraries for path in _folders(name)]
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", "-B", str(_SCRIPT), json.dumps(job)],
                input=json.dumps({"program": program, "tests": tests, "names": list(names)}).encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                timeout=limits.timeout_s + _MORE_S,
                check=False,
            )
            answer = json.loads(done.stdout)
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise _unavailable(f"the sandbox's own process ({type(error).__name__})") from error
    if answer["state"] == "unavailable":
        raise _unavailable(answer["what"])
    state: State = answer["state"]
    return state


def _folders(library: str) -> list[Path]:
    """Where an installed library is, and the shared libraries that its wheel brings. Raises SandboxUnavailable."""
    found = find_spec(library)
    if found is None or found.origin is None:
        raise _unavailable(f"the library {library}, which this suite's tests import")
    folder = Path(found.origin).parent
    return [path for path in (folder, folder.with_name(f"{library}.libs")) if path.is_dir()]


@cache
def _probe() -> None:
    if run_program(_PROBE, Limits(timeout_s=20.0)) != "passed":
        raise _unavailable("a working sandbox (a harmless program saw too much, or could not run)")


def _unavailable(what: str) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"programs cannot be contained on this machine; missing: {what}",
        where="sandbox",
        remedy="Allow workers to create user namespaces (Linux 5.12 or later; in containers the seccomp profile and "
        "kernel.unprivileged_userns_clone, user.max_user_namespaces), or leave the suite out of the recipe.",
    )
