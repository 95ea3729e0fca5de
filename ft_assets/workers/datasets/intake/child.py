"""The process that reads one hostile file: ``python -m``, an order as JSON on stdin, a reply as JSON on stdout.

The reply is ``{}``, ``{"is": "jsonl"}``, ``{"pictures": n}``, ``{"cut": true}`` if only its first rows were asked for,
``{"what", "where", "remedy"}`` if the file is bad, or ``{"missing": package}``. Imports stay light. The format's
imports come before the memory limit is set, which counts from there.
"""

import errno
import json
import resource
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from ft_assets.workers.datasets.intake.file_refusals import crashed, too_large, too_much_memory
from ft_assets.workers.datasets.intake.kinds import Kind
from ft_assets.workers.datasets.intake.limits import ReadLimits
from ft_assets.workers.datasets.intake.sink import Enough, Sink
from ft_assets.workers.datasets.intake.streams import Source
from ft_resources.errors import BadData

# Maps a format to the module with ``read(source, sink, settings)``; it may return a reply, or "jsonl" (``json_rows``).
_READERS = {
    "jsonl": "copy_rows",
    "json": "json_rows",
    "csv": "csv_rows",
    "tsv": "csv_rows",
    "parquet": "parquet_rows",
    "txt": "txt_rows",
    "pdf": "pdf_rows",
    "docx": "docx_rows",
    "html": "html_rows",
    "xlsx": "xlsx_rows",
}


def main() -> None:
    order = json.loads(sys.stdin.buffer.read())
    sys.stdout.write(json.dumps(_reply(order)))


def _reply(order: dict[str, Any]) -> dict[str, Any]:
    limits, name = ReadLimits(**order["limits"]), order["name"]
    try:
        reader: Callable[[Source, Sink, dict[str, Any]], dict[str, int] | str | None] = import_module(
            f"ft_assets.workers.datasets.intake.{_READERS[order['format']]}"
        ).read
        if order["codec"] == "zstd":
            import_module("pyarrow")
        if order["pdf_tables"] and order["format"] == "pdf":
            import_module("pdfplumber")
    except ImportError as error:
        return {"missing": error.name or str(error)}
    _set_limits(limits, order["cpu_seconds"])
    try:
        source = Source(
            path=Path(order["path"]),
            name=name,
            kind=Kind(format=order["format"], codec=order["codec"]),
            limits=limits,
            scratch=Path(order["target"]).with_suffix(".unpacked"),
        )
        with Sink(Path(order["target"]), name, source.size, limits) as sink:
            found = reader(source, sink, order)
        return {"is": found} if isinstance(found, str) else found or {}
    except Enough:
        return {"cut": True}
    except BadData as error:
        return _refused(error)
    except MemoryError:
        return _refused(too_much_memory(name, limits.memory_bytes))
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            return _refused(too_large(name, limits.out_bytes))
        # The parser of a hostile file may raise anything, and its message could quote rows: only the type is reported.
        return _refused(crashed(name, type(error).__name__, limits.memory_bytes))


def _refused(error: BadData) -> dict[str, str]:
    return {"what": error.what, "where": error.where, "remedy": error.remedy}


def _set_limits(limits: ReadLimits, cpu_seconds: int) -> None:
    if sys.platform == "linux":
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + limits.memory_bytes,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits.out_bytes + (1 << 20),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
