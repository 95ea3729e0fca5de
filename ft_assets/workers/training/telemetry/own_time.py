"""The time that a rank works by itself in each step: from the step's start to its first exchange with the others.

A whole step takes all ranks equally long, as they wait for the slowest. If ranks exchange weights or tokens in each
forward pass (``fsdp``, ``hsdp``, ``zero3``, ``context_parallel``), this is only the time for reading.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import time
from typing import Any

import torch


class OwnTime:
    """Call ``begin`` for a step and ``exchange`` before each exchange (the first counts), then read ``seconds``.

    On a GPU it is the device's time, read once the step is over, so that nothing waits for it.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._read_s = 0.0
        self._began: Any = None
        self._exchanged: Any = None

    def begin(self, read_s: float) -> None:
        """A step begins, after this rank has read for ``read_s`` seconds."""
        self._read_s, self._began, self._exchanged = read_s, self._now(), None

    def exchange(self) -> None:
        if self._exchanged is None:
            self._exchanged = self._now()

    @property
    def seconds(self) -> float:
        if self._exchanged is None:
            return self._read_s
        if self._cuda:
            return self._read_s + float(self._began.elapsed_time(self._exchanged)) / 1000
        return self._read_s + float(self._exchanged - self._began)

    def _now(self) -> Any:
        if not self._cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event
