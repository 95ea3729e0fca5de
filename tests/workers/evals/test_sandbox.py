"""Malicious programs in the real sandbox; without one, nothing is run, and the error says why."""

import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ft_assets.workers.suites.kinds import sandbox
from ft_assets.workers.suites.kinds.sandbox import SandboxUnavailable, require_sandbox, run_program
from tests.workers.evals.sandboxed import PATIENT, QUICK, holds
from tests.workers.evals.sandboxed import allowed as allowed


@pytest.mark.sandbox
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
    assert run_program(program, PATIENT) == "passed"


@pytest.mark.sandbox
def test_a_library_is_there_only_where_it_is_asked_for_and_nothing_beside_it() -> None:
    program = "import numpy as np, sys, os\nassert np.dot(np.eye(3), np.eye(3)).sum() == 3\n"
    beside = "assert {each.removesuffix('.libs') for each in os.listdir(sys.path[-1])} == {'numpy'}\n"
    with_numpy = PATIENT.model_copy(update={"libraries": ("numpy",), "memory_mb": 512})
    assert run_program(program + beside, with_numpy) == "passed"
    assert run_program("import pydantic", with_numpy) == "failed"
    assert run_program(program, PATIENT) == "failed"


@pytest.mark.subprocess
@pytest.mark.sandbox
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
    assert run_program(program, QUICK if state == "timeout" else PATIENT) == state


@pytest.mark.sandbox
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


@pytest.mark.sandbox
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


@pytest.mark.sandbox
def test_no_namespace_is_made_in_the_namespace_and_threads_and_children_are() -> None:
    assert run_program(NO_NAMESPACES, PATIENT) == "passed"


def container(*command: str) -> list[str]:
    """``command`` with read-only settings of the kernel, as in a container."""
    quiet = "mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys"
    return ["unshare", "-m", "sh", "-c", f'{quiet} && exec "$@"', "sh", *command]


def makes_containers() -> bool:
    return shutil.which("unshare") is not None and not subprocess.run(container("true"), capture_output=True).returncode


@pytest.mark.sandbox
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


@pytest.mark.sandbox
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


@pytest.mark.sandbox
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
        run_program("pass", PATIENT)
