"""Random draws that are the same on every machine and with every Python."""

from collections.abc import Sequence
from typing import TypeVar

from ft_resources.canonical import sha256_bytes

Each = TypeVar("Each")


class Draw:
    """Draws from the SHA-256 of ``seed`` and the draw's number."""

    def __init__(self, seed: str) -> None:
        self._seed, self._drawn = seed, 0

    def below(self, end: int) -> int:
        """A whole number from 0 to ``end - 1``."""
        self._drawn += 1
        return int(sha256_bytes(f"{self._seed}:{self._drawn}".encode()), 16) % end

    def between(self, least: int, most: int) -> int:
        """A whole number from ``least`` to ``most``."""
        return least + self.below(most - least + 1)

    def one(self, among: Sequence[Each]) -> Each:
        """One of ``among``."""
        return among[self.below(len(among))]

    def some(self, among: Sequence[Each], count: int) -> list[Each]:
        """``count`` different ones of ``among``, in random order."""
        left = list(among)
        return [left.pop(self.below(len(left))) for _ in range(count)]
