"""Compressed JSON lines: they are only unpacked."""

from typing import Any

from ft_assets.workers.datasets.intake.sink import Sink
from ft_assets.workers.datasets.intake.streams import Source


def read(source: Source, sink: Sink, _settings: dict[str, Any]) -> None:
    """Write the lines of ``source`` unchanged."""
    for block in source.blocks():
        sink.write(block)
