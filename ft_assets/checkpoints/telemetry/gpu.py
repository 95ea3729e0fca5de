"""How busy the device is and what memory is in use, without making it wait.

Memory is what PyTorch's allocator has on its own books; utilisation comes from the driver (NVML), asked by a thread, as
it can take milliseconds.
"""

import threading
from typing import Any, Protocol

import psutil

from ft_assets.packs.estimate.hardware import GIB, Hardware, find_hardware

SAMPLE_S = 1.0


class Device(Protocol):
    """What is measured of where a training runs."""

    @property
    def hardware(self) -> Hardware | None:
        """The type of GPU; None for a CPU and for types that are not known."""

    def figures(self) -> dict[str, Any]:
        """Columns of the step metrics."""

    def close(self) -> None: ...


class Cpu:
    """``host_memory_gib`` is what this process has in memory."""

    def __init__(self) -> None:
        self._process = psutil.Process()

    @property
    def hardware(self) -> Hardware | None:
        return None

    def figures(self) -> dict[str, Any]:
        return {"host_memory_gib": _gib(self._process.memory_info().rss)}

    def close(self) -> None:
        """Nothing to end."""


class Gpu:
    """The GPU number ``index`` of this process.

    ``gpu_memory_gib`` is the most that tensors have taken since the attempt began, ``gpu_reserved_gib`` what the
    allocator holds; ``gpu_utilisation`` the share of time, since the last row, in which the GPU was at work (0 to 1,
    left out where the driver does not tell).
    """

    def __init__(self, index: int) -> None:
        import torch

        self._cuda, self._index, self._host = torch.cuda, index, Cpu()
        self._samples = Samples()
        self._ended = threading.Event()
        threading.Thread(target=self._sample, name="gpu-utilisation", daemon=True).start()

    @property
    def hardware(self) -> Hardware | None:
        return find_hardware(self._cuda.get_device_name(self._index))

    def figures(self) -> dict[str, Any]:
        row = {
            **self._host.figures(),
            "gpu_memory_gib": _gib(self._cuda.max_memory_allocated(self._index)),
            "gpu_reserved_gib": _gib(self._cuda.memory_reserved(self._index)),
        }
        busy = self._samples.mean()
        return row if busy is None else {**row, "gpu_utilisation": round(busy, 3)}

    def close(self) -> None:
        self._ended.set()

    def _sample(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            try:
                self._samples.add(self._cuda.utilization(self._index) / 100)
            except Exception as problem:
                # No NVML, an old driver, a GPU that is shared out: whatever it is, training does not depend on it.
                print(f"warning: GPU utilisation is not reported: {problem}", flush=True)
                return


class Samples:
    """Samples by one thread, for another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._new: list[float] = []
        self._last: float | None = None

    def add(self, value: float) -> None:
        with self._lock:
            self._new.append(value)

    def mean(self) -> float | None:
        """Of the samples since this was last asked for; the answer before where there is none, None at first."""
        with self._lock:
            if self._new:
                self._last = sum(self._new) / len(self._new)
                self._new.clear()
            return self._last


def device_of(kind: str, index: int | None) -> Device:
    """``kind`` and ``index`` are those of a ``torch.device``."""
    return Gpu(index or 0) if kind == "cuda" else Cpu()


def _gib(size: int) -> float:
    return round(size / GIB, 3)
