"""Where a reader writes its JSON lines: a file that must not grow beyond what its source may unpack to."""

from pathlib import Path
from typing import IO, Any, Self

from ft_assets.datasets.intake.limits import ReadLimits
from ft_assets.datasets.intake.refusals import bomb, too_large


class Sink:
    """Counts bytes on their way to ``path``. The file is made with the first of them."""

    def __init__(self, path: Path, name: str, source_size: int, limits: ReadLimits) -> None:
        self._path, self._name, self._limits = path, name, limits
        self._bomb_at = limits.free_bytes + limits.ratio * source_size
        self._file: IO[bytes] | None = None
        self._count = 0

    def write(self, lines: Any) -> None:
        """Append ``lines`` (bytes, or what gives them without a copy). Raises BadData past a limit."""
        self._count += len(lines)
        if self._count > self._limits.out_bytes:
            raise too_large(self._name, self._limits.out_bytes)
        if self._count > self._bomb_at:
            raise bomb(self._name, self._limits.ratio)
        if self._file is None:
            self._file = self._path.open("wb", buffering=1 << 20)
        self._file.write(lines)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
