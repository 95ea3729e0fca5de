"""How many bytes of tensors a training step really holds at once, counted tensor by tensor and not by the process."""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


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


@contextmanager
def saved_bytes(model: torch.nn.Module) -> Iterator[dict[str, int]]:
    """Bytes that autograd keeps for the backward pass, the model's own weights apart: ``found["bytes"]``."""
    own = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    kept: dict[int, int] = {}
    hold: list[Any] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            kept[storage._cdata] = storage.nbytes()
            hold.append(storage)
        return tensor

    found = {"bytes": 0}
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield found
    found["bytes"] = sum(kept.values())
