"""Where a reader writes its JSON lines: a file whose size is limited by what its source may unpack to."""

from pathlib import Path
from typing import IO, Any, Self

from ft_assets.workers.datasets.intake.file_refusals import require_unpacked_size
from ft_assets.workers.datasets.intake.limits import ReadLimits


class Enough(BaseException):
    """As many rows were written as were asked for. No reader may take it for an error of its file."""


class Sink:
    """Counts the bytes written to ``path``. The file is created with the first of them."""

    def __init__(self, path: Path, name: str, source_size: int, limits: ReadLimits) -> None:
        self._path, self._name, self._source_size, self._limits = path, name, source_size, limits
        self._file: IO[bytes] | None = None
        self._count = 0

    def write(self, lines: Any) -> None:
        """Append ``lines`` (bytes, or an object with the buffer protocol). Raises BadData past a limit, and Enough."""
        self._count += len(lines)
        require_unpacked_size(self._count, self._name, self._source_size, self._limits)
        if self._file is None:
            self._file = self._path.open("wb", buffering=1 << 20)
        self._file.write(lines)
        if self._limits.head_bytes is not None and self._count >= self._limits.head_bytes:
            raise Enough

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
