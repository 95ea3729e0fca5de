"""The process that reads one hostile file: ``python -m``, an order as JSON on stdin, a reply as JSON on stdout.

The reply is ``{}``, ``{"is": "jsonl"}``, ``{"pictures": n}``, ``{"cut": true}`` if only its first rows were asked for,
``{"what", "where", "remedy"}`` if the file is bad, or ``{"missing": package}``. Imports stay light. The format's
imports come before the memory limit is set, which counts from there.
"""

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from ft_assets.workers.datasets.intake.file_refusals import refusal
from ft_assets.workers.datasets.intake.kinds import Kind
from ft_assets.workers.datasets.intake.limits import ReadLimits
from ft_assets.workers.datasets.intake.sink import Enough, Sink
from ft_assets.workers.datasets.intake.streams import Source

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
    limits.apply(order["cpu_seconds"])
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
    except Exception as error:
        refused = refusal(error, name, limits)
        return {"what": refused.what, "where": refused.where, "remedy": refused.remedy}


if __name__ == "__main__":
    main()
