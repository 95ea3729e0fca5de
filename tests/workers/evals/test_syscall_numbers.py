"""The sandbox names system calls by number; a wrong one would filter another call and let its own pass."""

import re
from pathlib import Path

import pytest

from ft_assets.workers.suites.kinds import sandbox_process as sandbox

# What the kernel's headers call the numbers of each machine; aarch64 has the generic ones.
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
UNCOUNTED = ("shmget", "shmat", "msgget", "semget", "memfd_create", "memfd_secret")


@pytest.mark.parametrize("machine", HEADERS)
def test_system_calls_have_the_numbers_of_the_kernels_headers(machine: str) -> None:
    header = HEADERS[machine]
    if not header.is_file():
        pytest.skip(f"no {header} here")
    found = re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", header.read_text(encoding="utf-8"), re.MULTILINE)
    numbers = {name: int(number) for name, number in found}
    assert sandbox._CALLS[machine][1:] == tuple(numbers[name] for name in ("unshare", "setns", "clone"))
    assert sandbox._UNCOUNTED[machine] == tuple(numbers[name] for name in UNCOUNTED)
    assert sandbox._PIVOT_ROOT[machine] == numbers["pivot_root"]
    assert (numbers["clone3"], numbers["mount_setattr"]) == (sandbox._CLONE3, sandbox._MOUNT_SETATTR)
