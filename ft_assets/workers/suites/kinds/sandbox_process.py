"""Runs one program and its tests isolated from everything: a separate script (``python -I -S``) of ``sandbox.py``.

Its argument is a job (JSON); the program and its tests come by stdin, and ``{"state": …}`` goes to stdout. There are
four processes. This one makes the namespaces, enforces the time limit and reports. The second is the first process of
the new process namespace; when it ends, the kernel ends all others. The third and the fourth drop all rights. One runs
the tests, and it alone can say that they passed. The other one runs the program, answers what it is asked
(``sandbox_calls.py``), and never had the tests in its memory. There are no environment variables.
"""

import ctypes
import errno
import json
import os
import platform
import resource
import select
import signal
import stat
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any, NoReturn

_NEW_MOUNTS, _NEW_UTS, _NEW_IPC, _NEW_USERS = 0x00020000, 0x04000000, 0x08000000, 0x10000000
_NEW_PROCESSES, _NEW_NETWORK, _NEW_CGROUP = 0x20000000, 0x40000000, 0x02000000
_BIND, _RECURSIVE, _PRIVATE, _NO_SUID, _NO_DEVICES, _NO_EXEC = 4096, 16384, 1 << 18, 2, 4, 8
_DETACH, _AT_FDCWD, _AT_RECURSIVE = 2, -100, 0x8000
_MOUNT_SETATTR = 442
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_PARENT_DEATH_SIGNAL, _NO_NEW_PRIVILEGES, _NOT_DUMPABLE, _SET_SECCOMP = 1, 38, 4, 22
# The machine's name for system calls, and their numbers: unshare, setns, clone (linux/audit.h, asm/unistd.h).
_CALLS = {"x86_64": (0xC000003E, 272, 308, 56), "aarch64": (0xC00000B7, 97, 268, 220)}
_CLONE3 = 435
# Memory that no limit of a process counts: shmget, shmat, msgget, semget, memfd_create, memfd_secret.
_UNCOUNTED = {"x86_64": (29, 30, 68, 64, 319, 447), "aarch64": (194, 196, 186, 190, 279, 447)}
_NOBODY = 65534
_NAMED = "/libraries"
# The existing folders among /lib and the like: shared libraries of the interpreter's own modules.
_LIBRARIES = ("/usr/lib", "/usr/lib64", "/lib", "/lib64")
_MIB = 1 << 20
_libc = ctypes.CDLL(None, use_errno=True)


class _Unavailable(Exception):
    """A part of the sandbox is unavailable here."""


def main() -> None:
    job = json.loads(sys.argv[1])
    # The interpreter sets its own locale.
    os.environ.clear()
    try:
        answer = _watch(job)
    except (_Unavailable, OSError) as error:
        answer = {"state": "unavailable", "what": str(error)}
    sys.stdout.write(json.dumps(answer))


def _watch(job: dict[str, Any]) -> dict[str, str]:
    """``passed`` only if the tests ran to their end: a program that exits early has not passed."""
    for path in job["modules"]:
        # By their full names, since they import each other; their package is not there.
        name = f"ft_assets.workers.suites.kinds.{os.path.basename(path)[:-3]}"
        module = sys.modules[name] = ModuleType(name)
        calls = module.__dict__
        with open(path, "rb") as file:
            exec(compile(file.read(), name, "exec"), calls)
    nothing = os.open(os.devnull, os.O_RDWR)
    _make_namespaces()
    _make_root(job["folder"], job["files_mb"], job["libraries"])
    report, tests, program = os.pipe(), os.pipe(), os.pipe()
    first = os.fork()
    if not first:
        _begin(job, calls, nothing, report[1], tests[0], program[0])
    for end in (report[1], tests[0], program[0]):
        os.close(end)
    handle = os.pidfd_open(first)
    _wait_until_ready(report[0])
    # Read only now, so that the program's process has no copy of its tests. They are complete before it has anything.
    texts = json.load(sys.stdin.buffer)
    for end, text in ((tests[1], {"tests": texts["tests"], "names": texts["names"]}), (program[1], texts["program"])):
        with open(end, "wb") as sink:
            sink.write(json.dumps(text).encode())
    ended = select.select([handle], [], [], job["timeout_s"])[0]
    if not ended:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    # Once this returns, the kernel has ended all processes inside.
    os.waitpid(first, 0)
    if os.read(report[0], 1) == b"P":
        return {"state": "passed"}
    return {"state": "failed" if ended else "timeout"}


def _wait_until_ready(report: int) -> None:
    """Until both processes have dropped their rights. Raises _Unavailable."""
    said = b""
    while said != b"RR":
        more = os.read(report, 4096)
        said += more
        if b"E" in said or not more:
            why = said.partition(b"E")[2].decode(errors="replace")
            raise _Unavailable(why or "the processes of the program and its tests did not start")


def _make_namespaces() -> None:
    """New users, mounts, processes, network (without an active device), shared memory and host name."""
    everything = _NEW_USERS | _NEW_MOUNTS | _NEW_PROCESSES | _NEW_NETWORK | _NEW_IPC | _NEW_UTS
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        # Root's limit on processes is not enforced, so the program runs as nobody; only a process outside may map two
        # users.
        write = _map_from_outside()
        _call("namespaces (unshare)", _libc.unshare(everything))
        os.write(write[0], b"x")
        if os.waitpid(write[1], 0)[1]:
            raise _Unavailable("users of the new namespace cannot be mapped")
    else:
        _call("namespaces (unshare)", _libc.unshare(everything))
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{_NOBODY} {user} 1")
        _write("/proc/self/gid_map", f"{_NOBODY} {group} 1")
    # A second barrier besides ``_filter_calls``; inside a container these settings are read-only.
    with suppress(_Unavailable):
        _write("/proc/sys/user/max_user_namespaces", "0")


def _map_from_outside() -> tuple[int, int]:
    """A pipe to write to once the namespace exists, and the process that then maps root and nobody into it."""
    read, write = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child:
        os.close(read)
        return write, child
    try:
        os.close(write)
        os.read(read, 1)
        for name in ("uid_map", "gid_map"):
            _write(f"/proc/{parent}/{name}", f"0 0 1\n{_NOBODY} {_NOBODY} 1")
    except BaseException:
        os._exit(1)
    os._exit(0)


def _make_root(folder: str, files_mb: int, libraries: list[str]) -> None:
    """A root that holds the interpreter's library, shared and named libraries, read-only, and an empty ``/tmp``."""
    _mount(None, "/", None, _PRIVATE | _RECURSIVE)
    _mount("tmpfs", folder, "tmpfs", _NO_SUID | _NO_DEVICES, "size=1m,mode=755")
    own = dict.fromkeys((*_LIBRARIES, os.path.dirname(os.__file__)))
    # Named ones beside each other, where they find each other; where they are may be below the machine's own /tmp.
    named = {path: f"{_NAMED}/{os.path.basename(path)}" for path in libraries}
    for path, place in {**{path: path for path in own}, **named}.items():
        inside = folder + place
        if os.path.islink(path):
            os.makedirs(os.path.dirname(inside), exist_ok=True)
            os.symlink(os.readlink(path), inside)
        elif os.path.isdir(path) and not os.path.isdir(inside):
            os.makedirs(inside)
            _mount(path, inside, None, _BIND | _RECURSIVE)
            _read_only(inside, recursive=True)
    os.mkdir(f"{folder}/tmp")
    _mount(
        "tmpfs", f"{folder}/tmp", "tmpfs", _NO_SUID | _NO_DEVICES | _NO_EXEC, f"size={files_mb}m,nr_inodes=1k,mode=1777"
    )
    _read_only(folder, recursive=False)
    os.chdir(folder)
    number = _PIVOT_ROOT.get(platform.machine())
    if number is None:
        raise _Unavailable(f"the call pivot_root on {platform.machine()}")
    _call("a root of its own (pivot_root)", _libc.syscall(number, b".", b"."))
    _call("a root of its own (umount)", _libc.umount2(b".", _DETACH))
    os.chdir("/tmp")


def _begin(job: dict[str, Any], calls: dict[str, Any], nothing: int, report: int, tests: int, program: int) -> NoReturn:
    """The first process inside: start the tests' process and the program's, and end with the first."""
    try:
        _libc.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        (asked, ask), (answers, told) = os.pipe(), os.pipe()

        def examine() -> None:
            # The one signal of which Python makes an exception, which a test might take for the program's.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            calls["examine"](**_read_all(tests), ask=ask, answers=answers)
            os.write(report, b"P")

        def serve() -> None:
            os.close(report)
            calls["serve"](_read_all(program), asked, told)

        child = os.fork()
        if not child:
            _keep(report, tests, ask, answers)
            _contained(job, report, examine)
        if not os.fork():
            _keep(report, program, asked, told)
            _contained(job, report, serve)
        _keep()
        while os.wait()[0] != child:
            pass
    finally:
        os._exit(0)


def _keep(*files: int) -> None:
    """Close all files but stdin, stdout, stderr and these."""
    start = 3
    for file in sorted(files):
        os.closerange(start, file)
        start = file + 1
    os.closerange(start, 4096)


def _read_all(file: int) -> Any:
    with open(file, "rb") as source:
        return json.load(source)


def _contained(job: dict[str, Any], report: int, work: Callable[[], None]) -> NoReturn:
    """Drop all rights, set all limits, report that, and work."""
    try:
        try:
            _limit(job)
            _drop_rights()
        except BaseException as error:
            os.write(report, b"E" + str(error).encode())
            os._exit(1)
        os.write(report, b"R")
        if job["libraries"]:
            sys.path.append(_NAMED)
            # The limit on memory counts what each thread of a library reserves.
            os.environ["OPENBLAS_NUM_THREADS"] = "1"
        work()
    finally:
        os._exit(0)


def _limit(job: dict[str, Any]) -> None:
    seconds = int(job["timeout_s"]) + 1
    for name, limit in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, job["memory_mb"] * _MIB),
        (resource.RLIMIT_FSIZE, job["files_mb"] * _MIB),
        # Besides the program's own process and its tests', the two before them if they have the same user.
        (resource.RLIMIT_NPROC, job["processes"] + (2 if os.getuid() == 0 else 4)),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(name, (limit, limit))


def _drop_rights() -> None:
    os.setsid()
    if os.getuid() != _NOBODY:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    _call("no new privileges (prctl)", _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _filter_calls()
    _call("no core of its own (prctl)", _libc.prctl(_NOT_DUMPABLE, 0, 0, 0, 0))
    # _LINUX_CAPABILITY_VERSION_3, this process; three sets of 64 bits, all empty.
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    _call("no capabilities (capset)", _libc.capset(header, (ctypes.c_uint32 * 6)()))
    os.umask(stat.S_IRWXG | stat.S_IRWXO)


def _filter_calls() -> None:
    """Forbid all calls that make a namespace, since a nested one would restore rights, such as to mount more memory,
    and all that make memory outside the limit: a shared segment counts only while it is attached.

    A filter of system calls (seccomp(2), struct seccomp_data: number at 0, architecture at 4, first argument at 16) for
    this process and its descendants. clone3 has its flags in memory, which filters cannot read: it is "not
    implemented", and libraries then use clone.
    """
    if platform.machine() not in _CALLS:
        raise _Unavailable(f"a filter of system calls on {platform.machine()}")
    architecture, unshare, setns, clone = _CALLS[platform.machine()]
    flags = _NEW_USERS | _NEW_MOUNTS | _NEW_PROCESSES | _NEW_NETWORK | _NEW_IPC | _NEW_UTS | _NEW_CGROUP
    load, equal, at_least, any_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, kill, error = 0x7FFF0000, 0x80000000, 0x00050000
    forbidden = (unshare, setns, *_UNCOUNTED[platform.machine()])
    past = len(forbidden) + 4
    rows = [
        # Code, number of rows to skip if true and if false, value.
        (load, 0, 0, 4),
        (equal, 1, 0, architecture),
        (give, 0, 0, kill),
        (load, 0, 0, 0),
        # System calls of x32 have other numbers.
        (at_least, past, 0, 0x40000000),
        *((equal, past - place, 0, number) for place, number in enumerate(forbidden, 1)),
        (equal, 4, 0, _CLONE3),
        (equal, 0, 4, clone),
        (load, 0, 0, 16),
        (any_bit, 0, 2, flags),
        (give, 0, 0, error | errno.EPERM),
        (give, 0, 0, error | errno.ENOSYS),
        (give, 0, 0, allow),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *row) for row in rows))
    # struct sock_fprog: the number of rows, and their address.
    program = struct.pack("@HP", len(rows), ctypes.addressof(code))
    _call("a filter of system calls (prctl)", _libc.prctl(_SET_SECCOMP, 2, program, 0, 0))


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind)]
    options = None if data is None else data.encode()
    _call(f"mounts ({target})", _libc.mount(*texts, ctypes.c_ulong(flags), options))


def _read_only(path: str, *, recursive: bool) -> None:
    # struct mount_attr: read-only, no set-user-id, no devices; nothing cleared.
    attributes = (ctypes.c_uint64 * 4)(1 | 2 | 4, 0, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    done = _libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, path.encode(), flags, ctypes.byref(attributes), ctypes.c_size_t(32))
    _call("read-only mounts (mount_setattr)", done)


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError as error:
        raise _Unavailable(f"{path} ({error.strerror})") from error


def _call(what: str, result: int) -> None:
    if result != 0:
        raise _Unavailable(f"{what}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main()
