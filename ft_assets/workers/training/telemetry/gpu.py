"""Device utilisation and memory, measured without synchronising with the device.

Memory is that of PyTorch's allocator. Utilisation comes from the driver (NVML), which a thread asks, as it can take
milliseconds.
"""

import math
import statistics
import threading
from typing import TYPE_CHECKING, Any

import psutil

from ft_assets.settings.gpus import GIB, Hardware, find_hardware

if TYPE_CHECKING:
    from ft_assets.workers.training.ranks import Ranks

SAMPLE_S = 1.0


class Cpu:
    """A CPU. ``host_memory_gib`` is the resident memory of this process."""

    def __init__(self) -> None:
        self._process = psutil.Process()

    @property
    def hardware(self) -> Hardware | None:
        """The type of GPU; None for a CPU and for types that are not known."""
        return None

    def figures(self) -> dict[str, Any]:
        """Columns of the step metrics. Every rank must ask for them."""
        return {"host_memory_gib": _gib(self._process.memory_info().rss)}

    def close(self) -> None:
        """End what measures."""


class Gpu(Cpu):
    """The GPU number ``index`` of this process, and those of the other ranks.

    ``gpu_memory_gib`` is the most that tensors have taken since the attempt began, ``gpu_reserved_gib`` what the
    allocator holds, both of the rank with the most; ``gpu_utilisation`` the share of time since the last row in which a
    GPU was busy (0 to 1, the mean over ranks; absent if the driver does not report it). Between two samples a thread
    waits for ``ended``.
    """

    def __init__(self, index: int, ranks: "Ranks", ended: threading.Event | None = None) -> None:
        import torch

        super().__init__()
        self._cuda, self._index, self._ranks = torch.cuda, index, ranks
        self._samples = Samples()
        self._ended = ended or threading.Event()
        threading.Thread(target=self._watch, name="gpu-samples", daemon=True).start()

    @property
    def hardware(self) -> Hardware | None:
        return find_hardware(self._cuda.get_device_name(self._index))

    def figures(self) -> dict[str, Any]:
        # The allocator's own figures, so nothing waits for the GPU.
        own = (self._cuda.max_memory_allocated(self._index), self._cuda.memory_reserved(self._index))
        memory, reserved, shares = zip(*self._ranks.gathered([*own, self._samples.mean()]), strict=True)
        row = {**super().figures(), "gpu_memory_gib": _gib(max(memory)), "gpu_reserved_gib": _gib(max(reserved))}
        busy = [share for share in shares if not math.isnan(share)]
        return {**row, "gpu_utilisation": round(statistics.fmean(busy), 3)} if busy else row

    def close(self) -> None:
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            try:
                self._samples.add(self._cuda.utilization(self._index) / 100)
            except Exception as problem:
                # No NVML, an old driver, a partitioned GPU: training does not depend on it.
                print(f"warning: GPU utilisation is not reported: {problem}", flush=True)
                return


class Samples:
    """Samples that one thread adds and another reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._new: list[float] = []
        self._last = math.nan

    def add(self, value: float) -> None:
        with self._lock:
            self._new.append(value)

    def mean(self) -> float:
        """The mean of the samples since the last call; the last mean if there are no new ones, NaN before the first."""
        with self._lock:
            if self._new:
                self._last = sum(self._new) / len(self._new)
                self._new.clear()
            return self._last


def _gib(size: float) -> float:
    return round(size / GIB, 3)
