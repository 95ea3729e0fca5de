"""The bytes of an uploaded file, unpacked while they are read; a file that unpacks to too much is refused meanwhile."""

import io
import zlib
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ft_assets.workers.datasets.intake.file_refusals import damaged, require_unpacked_size
from ft_assets.workers.datasets.intake.kinds import BOM, HEAD_BYTES, Kind, check_head
from ft_assets.workers.datasets.intake.limits import ReadLimits
from ft_resources.errors import BadData

BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One file to read. ``scratch`` is where it may be unpacked to, for formats that need to seek."""

    path: Path
    name: str
    kind: Kind
    limits: ReadLimits
    scratch: Path

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    def open(self) -> io.BufferedReader:
        """All unpacked bytes, without a byte order mark at the start. Raises BadData, also while they are read."""
        file = self._open()
        head = file.peek(HEAD_BYTES)[:HEAD_BYTES]
        if self.kind.codec:
            if not head:
                raise BadData(
                    "the file is empty once unpacked", where=self.name, remedy="Upload a file with examples in it."
                )
            check_head(head, Kind(format=self.kind.format, codec=""), self.name)
        if head.startswith(BOM):
            file.read(len(BOM))
        return file

    def blocks(self) -> Iterator[bytes]:
        """``open`` in blocks of at most 1 MiB."""
        with self.open() as file:
            while block := file.read(BLOCK):
                yield block

    def seekable(self) -> Path:
        """A file with the unpacked bytes."""
        if not self.kind.codec:
            return self.path
        with self.scratch.open("wb") as file:
            for block in self.blocks():
                file.write(block)
        return self.scratch

    def _open(self) -> io.BufferedReader:
        if not self.kind.codec:
            return io.BufferedReader(io.FileIO(self.path), buffer_size=HEAD_BYTES)
        raw: io.RawIOBase = _Gzip(self) if self.kind.codec == "gzip" else _Zstd(self)
        return io.BufferedReader(raw, buffer_size=HEAD_BYTES)


class _Unpacking(io.RawIOBase):
    """Returns the blocks of ``_more``, and counts their bytes."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._ready = memoryview(b"")
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._ready:
            block = self._more()
            self._count += len(block)
            require_unpacked_size(self._count, self._source.name, self._source.size, self._source.limits)
            self._ready = memoryview(block)
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    @abstractmethod
    def _more(self) -> bytes:
        """The next unpacked bytes; b"" at the end."""


class _Gzip(_Unpacking):
    """Any number of consecutive gzip members (RFC 1952), and NUL bytes as padding at the end."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._file: IO[bytes] = source.path.open("rb")
        self._member = zlib.decompressobj(wbits=31)
        self._packed = b""

    def _more(self) -> bytes:
        name = self._source.name
        while True:
            if self._member.eof:
                self._packed = (self._member.unused_data or self._file.read(BLOCK)).lstrip(b"\0")
                while not self._packed:
                    block = self._file.read(BLOCK)
                    if not block:
                        return b""
                    self._packed = block.lstrip(b"\0")
                self._member = zlib.decompressobj(wbits=31)
            packed = self._packed or self._file.read(BLOCK)
            if not packed:
                raise damaged(name, "gzip", "it is incomplete: its end mark is missing")
            try:
                block = self._member.decompress(packed, BLOCK)
            except zlib.error:
                raise damaged(name, "gzip", "its checksum does not match its bytes") from None
            self._packed = self._member.unconsumed_tail
            if block:
                return block

    def close(self) -> None:
        self._file.close()
        super().close()


class _Zstd(_Unpacking):
    def __init__(self, source: Source) -> None:
        import pyarrow as pa

        super().__init__(source)
        self._stream = pa.CompressedInputStream(pa.OSFile(str(source.path)), "zstd")

    def _more(self) -> bytes:
        try:
            return bytes(self._stream.read(BLOCK))
        except OSError as error:
            how = "it is incomplete: its end mark is missing"
            if "runcated" not in str(error):
                how = "its checksum does not match its bytes"
            raise damaged(self._source.name, "zstd", how) from None

    def close(self) -> None:
        self._stream.close()
        super().close()
