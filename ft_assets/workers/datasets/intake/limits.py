"""The limits for reading one file."""

import resource
import sys
from dataclasses import dataclass
from pathlib import Path

_MIB = 1 << 20
_GIB = 1 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadLimits:
    """Limits for reading one file. A file past any of them is refused; a row is left to the policy as a bad row.

    ``memory_bytes`` is what a parser may use beyond the interpreter itself; ``ratio`` limits the unpacked size as a
    multiple of the file's size (the first ``free_bytes`` are not counted); ``columns`` are those of a CSV or Parquet
    file. ``head_bytes`` is no limit of the file: of a file with more rows than that, the first ones are read.
    """

    memory_bytes: int = _GIB
    row_bytes: int = 16 * _MIB
    out_bytes: int = 64 * _GIB
    ratio: int = 200
    free_bytes: int = 16 * _MIB
    columns: int = 1000
    head_bytes: int | None = None
    seconds: float = 60.0
    seconds_per_gib: float = 900.0

    def seconds_for(self, size: int) -> float:
        """The wall-clock and CPU time allowed for a file of ``size`` bytes."""
        return self.seconds + self.seconds_per_gib * size / _GIB

    def apply(self, cpu_seconds: int) -> None:
        """Limit this process, from now on and for good, to ``cpu_seconds`` since its start, and in what else is set."""
        if sys.platform == "linux":
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + self.memory_bytes,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.out_bytes + (1 << 20),) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
