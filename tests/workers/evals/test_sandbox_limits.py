"""Limits of time, memory, processes, disk and output are enforced."""

import os
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from ft_assets.workers.suites.kinds.sandbox import run_program
from tests.workers.evals.sandboxed import PATIENT, QUICK, holds
from tests.workers.evals.sandboxed import allowed as allowed


@pytest.mark.sandbox
def test_nothing_can_be_written_but_a_few_megabytes_in_memory(tmp_path: Path) -> None:
    before = sorted(os.listdir(tmp_path))
    assert holds(
        "import os\n"
        "for path in ('/', '/usr', '/usr/lib', os.path.dirname(os.__file__)):\n"
        "    try:\n"
        "        open(path + '/evil', 'w')\n"
        "    except OSError:\n"
        "        continue\n"
        "    raise AssertionError(path)\n"
        "written = 0\n"
        "try:\n"
        "    for number in range(100):\n"
        "        with open(f'/tmp/{number}', 'wb') as file:\n"
        "            written += file.write(bytes(1 << 20))\n"
        "except OSError:\n"
        "    pass\n"
        "assert written <= 4 << 20, written\n"
    )
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.subprocess
@pytest.mark.sandbox
def test_endless_recursion_does_not_pass() -> None:
    program = "import sys\nsys.setrecursionlimit(10**9)\ndef f():\n    f()\nf()\n"
    assert run_program(program, QUICK) in ("failed", "timeout")


@pytest.mark.sandbox
def test_memory_ends_at_its_limit() -> None:
    assert holds("try:\n    data = bytearray(1 << 30)\nexcept MemoryError:\n    data = None\nassert data is None\n")


# Four times the memory of one process, in segments of which never more than one is attached.
SHARED_SEGMENTS = """
import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype, libc.shmat.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
for _ in range(16):
    segment = libc.shmget(0, ctypes.c_size_t(64 << 20), 0o1600)
    assert segment != -1
    place = libc.shmat(segment, None, 0)
    ctypes.memset(place, 1, 64 << 20)
    assert libc.shmdt(ctypes.c_void_p(place)) == 0
"""


# What is written to a nameless file need not be mapped at all.
NAMELESS_FILES = """
import os
for _ in range(16):
    file = os.memfd_create("x")
    for _ in range(4):
        os.write(file, bytes(1 << 20))
"""


QUEUES = "import ctypes\nassert ctypes.CDLL(None).msgget(0, 0o1600) != -1\n"


SEMAPHORES = "import ctypes\nassert ctypes.CDLL(None).semget(0, 32000, 0o1600) != -1\n"


@pytest.mark.sandbox
@pytest.mark.parametrize("program", [SHARED_SEGMENTS, NAMELESS_FILES, QUEUES, SEMAPHORES])
def test_no_memory_is_had_that_its_limit_does_not_count(program: str) -> None:
    assert run_program(program, PATIENT) == "failed"


@pytest.mark.subprocess
@pytest.mark.sandbox
def test_a_fork_bomb_makes_few_processes_and_none_outlives_the_program() -> None:
    assert holds(
        "import os, time\n"
        "made = 0\n"
        "try:\n"
        "    while made < 100:\n"
        "        if not os.fork():\n"
        "            time.sleep(3600)\n"
        "        made += 1\n"
        "except BlockingIOError:\n"
        "    pass\n"
        "assert made <= 4, made\n"
    )
    before = processes()
    bomb = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"
    assert run_program(bomb, QUICK) == "timeout"
    # A session of its own, signals ignored, the parent gone: the process namespace ends it all the same.
    stays = (
        "import os, signal, time\n"
        "for number in range(1, 32):\n"
        "    try:\n"
        "        signal.signal(number, signal.SIG_IGN)\n"
        "    except OSError:\n"
        "        pass\n"
        "if not os.fork():\n"
        "    os.setsid()\n"
        "    time.sleep(3600)\n"
    )
    assert run_program(stays, PATIENT) == "passed"
    assert processes() == before


def processes() -> int:
    """How many sandboxes there are on this machine, by their script, but those of tests that run beside this one."""
    this = psutil.Process()
    beside = {each.pid for each in this.parent().children() if each.pid != this.pid}
    found = 0
    for each in psutil.process_iter(["cmdline"]):
        if any("sandbox_process" in word for word in each.info["cmdline"] or ()):
            with suppress(psutil.Error):
                found += not beside.intersection(parent.pid for parent in each.parents())
    return found


@pytest.mark.subprocess
@pytest.mark.sandbox
def test_a_program_that_floods_what_it_can_write_to_has_not_passed() -> None:
    flood = (
        "import os\n"
        "for number in range(64):\n"
        "    try:\n"
        "        os.write(number, b'P' * (1 << 20))\n"
        "    except OSError:\n"
        "        pass\n"
        "os._exit(0)\n"
    )
    assert run_program(flood, PATIENT) == "failed"
    assert run_program("print('x' * 1_000_000)", PATIENT) == "passed"
