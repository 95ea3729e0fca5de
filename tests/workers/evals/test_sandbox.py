"""Programs that mean harm, in the real sandbox; where the machine has none, that nothing is run and why is said."""

import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ft_assets.workers.suites.kinds import sandbox
from ft_assets.workers.suites.kinds.sandbox import Limits, SandboxUnavailable, require_sandbox, run_program

QUICK = Limits(timeout_s=3.0, memory_mb=256, files_mb=4, processes=4)


def contained() -> bool:
    try:
        return run_program("pass", QUICK) == "passed"
    except SandboxUnavailable:
        return False


needs_sandbox = pytest.mark.skipif(not contained(), reason="this machine cannot contain programs")


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_RUN_CODE", "sandbox")
    sandbox._probe.cache_clear()


@needs_sandbox
@pytest.mark.parametrize(
    "program",
    [
        "x = sum(range(10))\nassert x == 45",
        "import collections, hashlib, heapq, json, math, random, re, datetime, decimal, itertools, typing",
        "open('/tmp/notes', 'w').write('x')\nassert open('/tmp/notes').read() == 'x'",
        "class A: pass\nassert __name__ == '__main__'",
    ],
)
def test_what_a_function_needs_is_there(program: str) -> None:
    assert run_program(program, QUICK) == "passed"


@needs_sandbox
def test_a_library_is_there_only_where_it_is_asked_for_and_nothing_beside_it() -> None:
    program = "import numpy as np, sys, os\nassert np.dot(np.eye(3), np.eye(3)).sum() == 3\n"
    beside = "assert {each.removesuffix('.libs') for each in os.listdir(sys.path[-1])} == {'numpy'}\n"
    with_numpy = QUICK.model_copy(update={"libraries": ("numpy",), "memory_mb": 512})
    assert run_program(program + beside, with_numpy) == "passed"
    assert run_program("import pydantic", with_numpy) == "failed"
    assert run_program(program, QUICK) == "failed"


@pytest.mark.subprocess
@needs_sandbox
@pytest.mark.parametrize(
    ("program", "state"),
    [
        ("assert 1 == 2", "failed"),
        ("1 / 0", "failed"),
        ("def f(:", "failed"),
        ("while True: pass", "timeout"),
        ("import time\ntime.sleep(60)", "timeout"),
        # Leaving early is not passing, whatever the exit status.
        ("import os\nos._exit(0)", "failed"),
        ("import sys\nsys.exit(0)", "failed"),
        ("raise SystemExit", "failed"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "failed"),
        ("import os, signal\nos.kill(1, signal.SIGKILL)\nos.kill(-1, signal.SIGKILL)", "failed"),
        ("import ctypes\nctypes.string_at(0)", "failed"),
    ],
)
def test_what_does_not_come_to_its_end_has_not_passed(program: str, state: str) -> None:
    assert run_program(program, QUICK) == state


def holds(program: str) -> bool:
    """Whether the program finds that what it tries fails: it runs to its end and every assertion holds."""
    return run_program(program, QUICK) == "passed"


@needs_sandbox
def test_nothing_of_the_machine_can_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    secret = tmp_path / "secret"
    secret.write_text("x")
    assert holds(
        "import os\n"
        "assert dict(os.environ) == {}\n"
        "import ctypes\n"
        "assert ctypes.CDLL(None).getenv(b'AWS_SECRET_ACCESS_KEY') == 0\n"
        f"paths = ['/etc', '/proc', '/dev', '/sys', '/home', '/var', '/run', '/root/.ssh', {str(secret)!r}]\n"
        "assert [path for path in paths if os.path.exists(path)] == []\n"
        "assert os.listdir('/tmp') == []\n"
        # Every file there is belongs to the interpreter or is a shared library.
        "library = os.path.dirname(os.__file__)\n"
        "for folder, below, files in os.walk('/'):\n"
        "    if folder.startswith((library, '/usr/lib', '/lib')):\n"
        "        below.clear()\n"
        "    else:\n"
        "        assert not files, folder\n"
    )


@needs_sandbox
def test_no_network_is_there_not_even_the_machines_own() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reached = threading.Event()

        def listen() -> None:
            try:
                server.accept()
                reached.set()
            except OSError:
                return

        threading.Thread(target=listen, daemon=True).start()
        assert holds(
            "import socket\n"
            f"for target in (('127.0.0.1', {port}), ('1.1.1.1', 53), ('169.254.169.254', 80)):\n"
            "    try:\n"
            "        socket.create_connection(target, timeout=1)\n"
            "    except OSError:\n"
            "        continue\n"
            "    raise AssertionError(target)\n"
        )
        assert not reached.is_set()


@needs_sandbox
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
@needs_sandbox
def test_endless_recursion_does_not_pass() -> None:
    program = "import sys\nsys.setrecursionlimit(10**9)\ndef f():\n    f()\nf()\n"
    assert run_program(program, QUICK) in ("failed", "timeout")


@needs_sandbox
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


@needs_sandbox
@pytest.mark.parametrize("program", [SHARED_SEGMENTS, NAMELESS_FILES, QUEUES, SEMAPHORES])
def test_no_memory_is_had_that_its_limit_does_not_count(program: str) -> None:
    assert run_program(program, QUICK) == "failed"


@pytest.mark.subprocess
@needs_sandbox
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
    assert run_program(stays, QUICK) == "passed"
    assert processes() == before


def processes() -> int:
    """How many sandboxes there are on this machine, by their script."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += b"sandbox_process" in path.read_bytes()
        except OSError:
            continue
    return found


# How a namespace is asked for: unshare, clone and clone3 (whose flags are in memory), setns.
NO_NAMESPACES = """
import ctypes, errno, os, platform
libc = ctypes.CDLL(None, use_errno=True)
clone = {"x86_64": 56, "aarch64": 220}[platform.machine()]
for flags in (0x10000000, 0x10020000, 0x00020000, 0x40000000, 0x20000000, 0x02000000):
    assert libc.unshare(flags) == -1 and ctypes.get_errno() == errno.EPERM, flags
    assert libc.syscall(clone, flags | 17, 0, 0, 0, 0) == -1 and ctypes.get_errno() == errno.EPERM, flags
arguments = (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, 17, 0, 0, 0)
assert libc.syscall(435, ctypes.byref(arguments), ctypes.c_size_t(64)) == -1 and ctypes.get_errno() == errno.ENOSYS
assert libc.setns(0, 0) == -1 and ctypes.get_errno() == errno.EPERM
import threading
thread = threading.Thread(target=lambda: None)
thread.start()
thread.join()
child = os.fork()
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


@needs_sandbox
def test_no_namespace_is_made_in_the_namespace_and_threads_and_children_are() -> None:
    assert run_program(NO_NAMESPACES, QUICK) == "passed"


def container(*command: str) -> list[str]:
    """``command`` where the kernel's settings are read-only, as in a container."""
    quiet = "mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys"
    return ["unshare", "-m", "sh", "-c", f'{quiet} && exec "$@"', "sh", *command]


def makes_containers() -> bool:
    return shutil.which("unshare") is not None and not subprocess.run(container("true"), capture_output=True).returncode


@needs_sandbox
@pytest.mark.skipif(not makes_containers(), reason="who runs this may make no mount namespace")
def test_where_the_kernels_settings_are_read_only_as_in_a_container_programs_are_contained_all_the_same() -> None:
    check = (
        "import sys\n"
        "from ft_assets.workers.suites.kinds.sandbox import Limits, require_sandbox, run_program\n"
        "assert not __import__('os').access('/proc/sys/user/max_user_namespaces', 2)\n"
        "require_sandbox()\n"
        "print(run_program(sys.argv[1], Limits(timeout_s=20.0)))\n"
    )
    done = subprocess.run(container(sys.executable, "-c", check, NO_NAMESPACES), capture_output=True, text=True)
    assert done.stdout == "passed\n", done.stderr


@needs_sandbox
def test_rights_once_given_up_cannot_be_had_again() -> None:
    assert holds(
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "assert os.getuid() == os.geteuid() == 65534\n"
        "for flags in (0x10000000, 0x00020000, 0x40000000, 0x20000000):\n"
        "    assert libc.unshare(flags) == -1, flags\n"
        "assert libc.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None) == -1\n"
        "assert libc.umount2(b'/tmp', 2) == -1\n"
        "for change in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.chroot('/tmp'), lambda: os.nice(-1)):\n"
        "    try:\n"
        "        change()\n"
        "    except PermissionError:\n"
        "        continue\n"
        "    raise AssertionError(change)\n"
        "import resource\n"
        "try:\n"
        "    resource.setrlimit(resource.RLIMIT_NPROC, (9999, 9999))\n"
        "    raise AssertionError\n"
        "except (ValueError, PermissionError):\n"
        "    pass\n"
    )


@pytest.mark.subprocess
@needs_sandbox
def test_a_program_that_floods_what_it_can_write_to_has_not_passed() -> None:
    program = "import os\nfor number in (1, 2, 3):\n    os.write(number, b'R' * (1 << 20))\n"
    assert run_program(program, QUICK) == "timeout"
    assert run_program("import os\nos.write(3, b'x' * 16)\nos._exit(0)", QUICK) == "failed"
    assert run_program("print('x' * 1_000_000)", QUICK) == "passed"


@needs_sandbox
def test_a_harmless_probe_passes_where_a_sandbox_is() -> None:
    require_sandbox()


@pytest.mark.parametrize("value", [None, "", "1", "true", "yes", "Sandbox"])
def test_nothing_is_run_unless_the_platform_says_sandbox(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.setattr(sandbox, "run_program", lambda *_: pytest.fail("a program was run"))
    if value is None:
        monkeypatch.delenv("FT_RUN_CODE")
    else:
        monkeypatch.setenv("FT_RUN_CODE", value)
    with pytest.raises(SandboxUnavailable, match="the platform does not allow that"):
        require_sandbox()


def test_a_machine_without_namespaces_runs_nothing_and_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # The same script where the kernel refuses: as in a container whose seccomp profile does.
    script = sandbox._SCRIPT.read_text()
    broken = tmp_path / "sandbox_process.py"
    marker = "_libc.unshare(everything)"
    assert marker in script
    broken.write_text(script.replace(marker, "(ctypes.set_errno(1), -1)[1]"))
    monkeypatch.setattr(sandbox, "_SCRIPT", broken)
    with pytest.raises(SandboxUnavailable, match=r"namespaces \(unshare\): Operation not permitted"):
        require_sandbox()


def test_a_script_that_dies_is_no_verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dead = tmp_path / "dead.py"
    dead.write_text("raise SystemExit(1)")
    monkeypatch.setattr(sandbox, "_SCRIPT", dead)
    with pytest.raises(SandboxUnavailable, match="the sandbox's own process"):
        run_program("pass", QUICK)
