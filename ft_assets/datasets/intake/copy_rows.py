"""JSON lines that were compressed: only unpacked."""

from typing import Any

from ft_assets.datasets.intake.sink import Sink
from ft_assets.datasets.intake.streams import Source


def read(source: Source, sink: Sink, _settings: dict[str, Any]) -> None:
    """Write the lines of ``source`` as they are."""
    for block in source.blocks():
        sink.write(block)
