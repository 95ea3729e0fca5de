"""How many bytes of tensors a training step really holds at once, counted tensor by tensor and not by the process."""

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from ft_assets.workers.packs.isolation.batches import MicroBatch


class Meter(TorchDispatchMode):
    """Counts storages as operations make them and as they are freed; ``peak`` is the most that lived at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: set[int] = set()

    def track(self, tensors: Any) -> None:
        for tensor in tree_iter(tensors):
            if isinstance(tensor, torch.Tensor):
                self._add(tensor.untyped_storage())

    def _add(self, storage: Any) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._known:
            return
        self._known.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._drop, key, size)

    def _drop(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.track(out)
        return out


def elsewhere(**settings: Any) -> torch.autograd.graph.saved_tensors_hooks:
    """As PyTorch's ``save_on_cpu``, for tensors without contents: what it holds is on no device that is counted."""

    def back(saved: tuple[torch.Size, torch.dtype]) -> torch.Tensor:
        return torch.zeros(saved[0], dtype=saved[1])

    return torch.autograd.graph.saved_tensors_hooks(lambda tensor: (tensor.shape, tensor.dtype), back)


def packed_row(*, tokens: int, documents: int, learned: float, vocabulary: int) -> MicroBatch:
    """A forward pass over equal documents, of which the last tokens are learned."""
    length, count = tokens // documents, int(tokens * learned)
    return MicroBatch(
        input_ids=torch.randint(0, vocabulary, (1, tokens)),
        position_ids=torch.arange(length).repeat(documents)[None],
        boundaries=torch.arange(0, tokens + 1, length, dtype=torch.int32),
        sources=torch.arange(tokens - count - 1, tokens - 1),
        targets=torch.randint(0, vocabulary, (count,)),
    )
