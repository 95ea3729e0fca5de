"""How the ranks of a training hold one model: whole on each (``Sharding`` itself), or in shards.

none    every rank holds all of it; DistributedDataParallel averages gradients
fsdp    every rank holds a shard of each trained weight, from loading on (``FullyShardedData``)
hsdp    the same within each node, and each node holds all of it
zero1, zero2, zero3
        DeepSpeed's engine divides moments, gradients, weights (``zero.py``)

The trainer and its saves use a ``Sharding`` and do not depend on the layout. Saves hold whole tensors in the format of
one process, so a run may resume in another layout.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from peft.tuners import tuners_utils
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from ft_assets.workers.libraries import accepts
from ft_assets.workers.training.ranks import Ranks


class Sharding:
    """Every rank holds the whole model. Other layouts override what differs.

    Every rank must call the methods that gather tensors, in the same order.
    """

    clips = False
    """Whether the update clips gradients itself, so that the trainer must not."""
    gathers = False
    """Whether ranks exchange weights in each forward pass."""
    averages = True
    """Whether the backward passes of all ranks meet, and average their gradients."""

    @property
    def part(self) -> int:
        """The number of the shard that this rank holds; ranks with the same one hold the same weights."""
        return 0

    @contextmanager
    def loading(self) -> Iterator[dict[str, Any]]:
        """Arguments of ``from_pretrained`` that load only this rank's part of the weights."""
        yield {}

    def adapting(self) -> AbstractContextManager[None]:
        """While inside, adapters are added to a model loaded inside ``loading``."""
        return nullcontext()

    def wrap(self, accelerator: Any, model: Any, optimizer: Any, max_grad_norm: float) -> tuple[Any, Any]:
        """Model and optimizer for training on several ranks: backward passes average gradients over the ranks."""
        # Without device_ids, as the document boundaries must stay on the CPU.
        ready = computing(accelerator, model)
        is_new = accepts(DistributedDataParallel.__init__, "forward_sync_buffers")
        without: dict[str, Any] = {"forward_sync_buffers" if is_new else "broadcast_buffers": False}
        return DistributedDataParallel(ready, gradient_as_bucket_view=True, **without), optimizer

    def micro_batch(self, model: Any, *, last: bool) -> AbstractContextManager[None]:
        """Forward and backward of one micro-batch; ``last``: whether it is the last of its step."""
        # Ranks exchange gradients once per step.
        return model.no_sync() if isinstance(model, DistributedDataParallel) and not last else nullcontext()

    def backward(self, accelerator: Any, model: Any, loss: torch.Tensor) -> None:
        """Add the gradients of ``loss`` to the step's."""
        accelerator.backward(loss)

    def end_part(self, model: Any) -> None:
        """The last backward pass of this rank, or of one of its virtual ranks, is done."""

    def complete_gradients(self, model: Any, ranks: Ranks) -> None:
        """Average over the ranks, once per step, the gradients that backward passes did not."""

    def gradient_norm(self, model: Any) -> float:
        """Norm of the step's gradient over all ranks, before clipping; NaN if it is not finite. Only if ``clips``."""
        raise NotImplementedError

    def final_weights(self, model: Any, *, full: bool, kept: bool) -> dict[str, torch.Tensor] | None:
        """The weights to publish if ``model`` alone does not hold them: all if ``full``, otherwise adapters; else None.

        On the CPU if ``kept``, otherwise empty. Of tied weights only the source of the others is included, as in any
        saved model.
        """
        return None

    def shape(self, value: torch.Tensor) -> torch.Size:
        """Shape of the whole tensor, of which this rank may hold only a shard."""
        return value.shape

    def is_tensor(self, value: Any) -> bool:
        """Whether an optimizer state's ``value`` is a tensor, or something that ``whole`` turns into one."""
        return isinstance(value, torch.Tensor)

    def whole(self, value: Any) -> Any:
        """The whole tensor of which ``value`` is this rank's part."""
        return value

    @torch.no_grad()
    def put(self, target: torch.Tensor, value: torch.Tensor) -> None:
        """Set ``target``, or this rank's shard of it, to the whole tensor ``value``."""
        target.copy_(self.held(target, value))

    def held(self, target: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """This rank's part of the whole tensor ``value``, split as ``target``; needs no other ranks."""
        return value

    def _gather(self, model: Any, *, full: bool, kept: bool) -> dict[str, torch.Tensor]:
        """``final_weights`` of a layout whose ranks must gather them."""
        state = {}
        for name, value in model.named_parameters():
            if name not in model.all_tied_weights_keys and (full or value.requires_grad):
                one = self.whole(value).detach()
                # Copied even if already whole: it may share memory with other weights.
                state[name] = one.to("cpu", copy=True) if kept else one.new_empty(0)
        return state


def computing(accelerator: Any, model: Any) -> Any:
    """``model`` with its forward passes in the training precision."""
    return accelerator.prepare_model(model, device_placement=False, evaluation_mode=True)


class FullyShardedData(Sharding):
    """``copies`` of the weights, each divided into ``shards``, one for each of neighbouring ranks; gathered in bf16 if
    ``half``."""

    gathers = True

    def __init__(self, shards: int, copies: int = 1, *, half: bool) -> None:
        self._shards, self._copies, self._half = shards, copies, half

    @property
    def part(self) -> int:
        return dist.get_rank() % self._shards

    @contextmanager
    def loading(self) -> Iterator[dict[str, Any]]:
        from transformers.distributed import DistributedConfig, fsdp

        config = DistributedConfig(
            fsdp_size=self._shards, dp_replicate_size=self._copies, fsdp_mixed_precision=self._half
        )
        # Transformers gathers and frees the last norm and the output layer as one, so PyTorch expects one call of each.
        # But the output layer is called for parts of the tokens, and its weights were gone in the backward pass.
        as_one = fsdp.is_norm_and_head_pair
        fsdp.is_norm_and_head_pair = lambda *_: False
        try:
            yield {"distributed_config": config}
        finally:
            fsdp.is_norm_and_head_pair = as_one

    @contextmanager
    def adapting(self) -> Iterator[None]:
        # PEFT mistakes replicated shards for those of tensor parallelism, and would give adapters the shape of a shard
        # instead of the layer's.
        known = tuners_utils._torch_supports_distributed
        tuners_utils._torch_supports_distributed = False
        try:
            yield
        finally:
            tuners_utils._torch_supports_distributed = known

    def wrap(self, accelerator: Any, model: Any, optimizer: Any, max_grad_norm: float) -> tuple[Any, Any]:
        """Unchanged: sharded weights average their own gradients."""
        return model, optimizer

    def micro_batch(self, model: Any, *, last: bool) -> AbstractContextManager[None]:
        """Exchanges gradients for each micro-batch: ranks have no memory for whole ones."""
        return nullcontext()

    def complete_gradients(self, model: Any, ranks: Ranks) -> None:
        """Average the gradients of adapters."""
        gradients = [p.grad for p in model.parameters() if p.grad is not None and not isinstance(p, DTensor)]
        if gradients:
            flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
            dist.all_reduce(flat)
            flat /= ranks.world
            pieces = flat.split([gradient.numel() for gradient in gradients])
            for gradient, piece in zip(gradients, pieces, strict=True):
                gradient.copy_(piece.view_as(gradient))

    def final_weights(self, model: Any, *, full: bool, kept: bool) -> dict[str, torch.Tensor]:
        state = self._gather(model, full=full, kept=kept)
        # Otherwise saving would gather them again, and the layout is not a property of the model.
        model.config.distributed_config = None
        model._is_distributed_loading_by_transformers = False
        return state

    def whole(self, value: Any) -> Any:
        return value.full_tensor() if isinstance(value, DTensor) else value

    def held(self, target: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        if not isinstance(target, DTensor):
            return value
        moved = value.to(target.device)
        return distribute_tensor(moved, target.device_mesh, target.placements, src_data_rank=None)
