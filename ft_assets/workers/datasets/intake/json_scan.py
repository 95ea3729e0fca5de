"""Positions of JSON brackets and commas outside of strings, found with numpy in blocks of any size."""

import numpy as np

_STRUCTURAL = np.zeros(256, bool)
_STRUCTURAL[[ord(mark) for mark in "[]{},"]] = True
_STEP = np.zeros(256, np.int8)
_STEP[[ord("["), ord("{")]] = 1
_STEP[[ord("]"), ord("}")]] = -1


class JsonScanner:
    """Scans a JSON text block by block; ``depth`` and ``in_string`` are the state at the end of the last block."""

    def __init__(self) -> None:
        self.depth = 0
        self.in_string = False
        self._escaped = False  # the first byte of the next block follows a backslash

    def scan(self, block: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The structural bytes of ``block`` (uint8) outside of strings.

        Returns:
            Their positions, the depth after each of them, and the positions of the quotes that open or close strings.
        """
        if self._escaped:
            block = block.copy()
            block[0] = ord("x")  # whatever it is, it is text
            self._escaped = False
        quotes = np.flatnonzero(block == 34)
        quotes = quotes[~self._are_escaped(block, quotes)]
        marks = np.flatnonzero(_STRUCTURAL[block])
        marks = marks[~self.inside(marks, quotes)]
        depths = self.depth + np.cumsum(_STEP[block[marks]], dtype=np.int64)
        return marks, depths, quotes

    def inside(self, positions: np.ndarray, quotes: np.ndarray) -> np.ndarray:
        """Whether each of ``positions`` is inside a string; before ``advance``."""
        return ((np.searchsorted(quotes, positions) + self.in_string) & 1).astype(bool)

    def advance(self, depths: np.ndarray, quotes: np.ndarray) -> None:
        """Make the state that ``scan`` found the start of the next block."""
        if len(depths):
            self.depth = int(depths[-1])
        self.in_string ^= bool(len(quotes) & 1)

    def _are_escaped(self, block: np.ndarray, quotes: np.ndarray) -> np.ndarray:
        """Whether an odd number of backslashes precedes each quote."""
        slashes = np.flatnonzero(block == 92)
        if not len(slashes):
            return np.zeros(len(quotes), bool)
        begins = np.concatenate(([True], np.diff(slashes) != 1))
        run = np.maximum.accumulate(np.where(begins, slashes, 0))
        # In a run of backslashes, the first, third, … escape what follows them.
        active = slashes[(slashes - run) % 2 == 0]
        self._escaped = bool(active[-1] == len(block) - 1)
        after = np.zeros(len(block) + 1, bool)
        after[active + 1] = True
        return after[quotes]
