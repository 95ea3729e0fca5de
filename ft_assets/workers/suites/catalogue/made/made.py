"""``kind: made``: the code that makes the items, and the digest that its result must have."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ft_assets.workers.suites.catalogue.made import arithmetic, followed, hazards, lists
from ft_assets.workers.suites.catalogue.made.draw import Draw
from ft_assets.workers.suites.catalogue.parts import lines, write_lines
from ft_assets.workers.suites.safety_suite import KINDS
from ft_resources.canonical import sha256_bytes
from ft_resources.settings import Settings

Row = dict[str, Any]
# Each makes rows, most without an end, cycling through their tasks.
_MAKERS: Mapping[str, Callable[[Draw], Iterator[Row]]] = {
    "arithmetic": arithmetic.items,
    "lists": lists.items,
    "followed": followed.items,
    "hazards": hazards.suite,
}


class Made(Settings):
    """items.jsonl, and shots.jsonl where the maker has examples; of a safety suite, a file for each kind of prompt."""

    kind: Literal["made"] = Field(description="made: our own code makes the items.")
    maker: Literal["arithmetic", "lists", "followed", "hazards"] = Field(description="The code that makes the items.")
    seed: int = Field(description="Seed of its random draws.")
    items: int = Field(gt=0, description="Number of items.")
    sha256: str = Field(
        pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the items and then the examples, as JSON lines."
    )

    def needs(self, known: Mapping[str, Sequence[str]]) -> list[str]:
        """See conversions.Copy."""
        return []

    def write(self, files: Mapping[str, Path], folder: Path) -> None:
        """See conversions.Copy."""
        rows, shots = self.rows(), self.shots()
        made = sha256_bytes((lines(rows) + lines(shots)).encode())
        assert made == self.sha256, f"{self.maker} makes other items than before ({made}): raise the suite's version"
        if self.maker == "hazards":
            for kind in KINDS:
                write_lines(folder / f"{kind}.jsonl", [row for row in rows if row["kind"] == kind])
            return
        write_lines(folder / "items.jsonl", rows)
        if shots:
            write_lines(folder / "shots.jsonl", shots)

    def rows(self) -> list[Row]:
        """The items, without repeated questions."""
        found: dict[str, Row] = {}
        for row in _MAKERS[self.maker](Draw(f"{self.maker} {self.seed}")):
            found.setdefault(str(row.get("context") or row.get("question") or row.get("prompt")), row)
            if len(found) == self.items:
                break
        return [{"id": f"{self.maker}-{number}", **row} for number, row in enumerate(found.values(), start=1)]

    def shots(self) -> list[Row]:
        """Examples of each task, drawn apart from the items."""
        return lists.shots(Draw(f"{self.maker} examples {self.seed}")) if self.maker == "lists" else []
