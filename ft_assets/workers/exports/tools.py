"""External programs that make exports. They get files, but no keys of the store, and look nothing up online."""

import os
import subprocess
from collections.abc import Sequence

LIMIT_S = 4 * 3600.0
_SHOWN = 2000
_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")


class ToolFailed(Exception):
    """A program ended with an error; the end of its output."""


def run_tool(command: Sequence[str]) -> None:
    """Run ``command`` to its end. Raises ToolFailed."""
    try:
        ended = subprocess.run(
            command, env=environment(), capture_output=True, stdin=subprocess.DEVNULL, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ToolFailed(f"it took longer than {LIMIT_S:.0f} s") from error
    if ended.returncode:
        raise ToolFailed(end_of(ended.stdout + ended.stderr))


def environment() -> dict[str, str]:
    """The environment of such a program: without keys, and with libraries offline."""
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**kept, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def end_of(said: bytes) -> str:
    """The end of a program's output, as text."""
    return said.decode(errors="replace").strip()[-_SHOWN:]
