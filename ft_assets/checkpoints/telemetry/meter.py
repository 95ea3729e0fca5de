"""The figures of one optimizer step."""

import time
from typing import Any


class Meter:
    """Measures steps by the clock; ``seconds`` of the last one count neither validation nor saves."""

    def __init__(self) -> None:
        self._stepped_at = self._began = time.monotonic()
        self._steps = 0
        self.seconds = 0.0

    def begin(self) -> None:
        """Training begins, or goes on, here."""
        self._stepped_at = self._began = time.monotonic()

    def stepped(self, tokens: int, waited_s: float) -> dict[str, Any]:
        """A step of so many tokens is done; its figures as columns of the step metrics."""
        now = time.monotonic()
        self.seconds, self._stepped_at = max(now - self._stepped_at, 1e-9), now
        self._steps += 1
        return {"tokens_per_s": round(tokens / self.seconds, 1), "data_wait_s": round(waited_s, 4)}

    def set_aside(self, seconds: float) -> None:
        """So many seconds of the step under way went into something else."""
        self._stepped_at += seconds

    def eta_s(self, steps: int) -> float:
        """Seconds that ``steps`` more would take at the pace so far."""
        pace = (time.monotonic() - self._began) / max(self._steps, 1)
        return round(pace * steps, 1)
