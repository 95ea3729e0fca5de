"""The losses of documents packed and alone, side by side, and how much of their difference is rounding."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from ft_resources.errors import UserError


class Leak(UserError):
    """Documents of a window change each other's losses; training would learn from what it must not see."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentLosses:
    """Summed losses of one document (nats over its learned tokens) in its window and alone.

    ``example`` is the dataset's id, ``row`` the upload's row, ``piece`` the document's number in its example
    (preference: 0 chosen, 1 rejected).
    """

    example: str
    row: int
    piece: int
    learned: int
    packed: float
    alone: float

    @property
    def absolute(self) -> float:
        return abs(self.packed - self.alone)

    @property
    def relative(self) -> float:
        """Relative to the loss alone, or to one nat if that is larger. Infinite for a non-finite loss."""
        if self.packed == self.alone:
            return 0.0
        share = self.absolute / max(abs(self.alone), 1.0)
        return share if math.isfinite(share) else math.inf

    @property
    def scaled(self) -> float:
        """The relative difference of a single token that would explain this one if it were rounding.

        Tokens round independently, so a sum of n differs by about the root of n, and relatively by one over the root.
        """
        return self.relative * math.sqrt(self.learned)


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Documents compared, and the relative difference of one token that passes (see ``tolerance_of``)."""

    documents: tuple[DocumentLosses, ...]
    tolerance: float

    @property
    def worst(self) -> DocumentLosses | None:
        """The document that differs most; None if none was compared."""
        return max(self.documents, key=lambda document: document.scaled, default=None)

    @property
    def largest_absolute(self) -> float:
        return max((document.absolute for document in self.documents), default=0.0)

    @property
    def largest_relative(self) -> float:
        return max((document.relative for document in self.documents), default=0.0)

    @property
    def bit_equal(self) -> bool:
        return all(document.packed == document.alone for document in self.documents)

    @property
    def passed(self) -> bool:
        return all(document.scaled <= self.tolerance for document in self.documents)

    def __add__(self, other: "Comparison") -> "Comparison":
        return Comparison(documents=self.documents + other.documents, tolerance=max(self.tolerance, other.tolerance))

    def figures(self) -> dict[str, Any]:
        """As JSON, for facts and reports; infinities become the text ``inf``."""
        worst = None if self.worst is None else asdict(self.worst)
        figures = {
            "documents": len(self.documents),
            "bit_equal": self.bit_equal,
            "largest_absolute": self.largest_absolute,
            "largest_relative": self.largest_relative,
            "tolerance": self.tolerance,
            "passed": self.passed,
            "worst": worst,
        }
        return {name: _json(value) for name, value in figures.items()}

    def require(self) -> None:
        """Raise Leak, naming the document that differs most, unless the comparison passed."""
        worst = self.worst
        if self.passed or worst is None:
            return
        raise Leak(
            f"documents that share a window change each other: the loss of example {worst.example[:12]} "
            f"({_piece(worst)}{worst.learned} learned tokens) is {worst.packed:.6g} in its window and "
            f"{worst.alone:.6g} alone; rounding explains {self.tolerance / math.sqrt(worst.learned):.1g} of it at most",
            where=f"row {worst.row} of the upload",
            remedy="Nothing was trained. The base's layers let tokens meet outside of attention, or its attention is "
            "not the platform's. Set packing.mode to apart, and tell us which base it was.",
        )


def _piece(document: DocumentLosses) -> str:
    return f"document {document.piece + 1} of it, " if document.piece else ""


def _json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _json(each) for name, each in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
