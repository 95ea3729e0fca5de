"""Shared by conversions: a fixed part of the items, and files of JSON lines."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from ft_resources.canonical import sha256_bytes
from ft_resources.settings import Settings

LETTERS = "ABCDEFGHIJ"


class Part(Settings):
    """A fixed part of the items."""

    items: int = Field(gt=0, description="Number of items.")
    seed: int = Field(description="Chooses them: the smallest SHA-256 of seed and id.")

    def of(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those of ``rows``, which have ids, in their order."""
        drawn = sorted(rows, key=lambda row: sha256_bytes(f"{self.seed}:{row['id']}".encode()))[: self.items]
        kept = {row["id"] for row in drawn}
        return [row for row in rows if row["id"] in kept]


def lines(rows: Iterable[Mapping[str, Any]]) -> str:
    """``rows`` as JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write ``rows`` as JSON lines."""
    path.write_text(lines(rows), encoding="utf-8")
