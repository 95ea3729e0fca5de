"""DeepSpeed's engine: ZeRO's stages 1 to 3 (Rajbhandari et al. 2020, https://arxiv.org/abs/1910.02054).

Stage 1 divides AdamW's moments between ranks, 2 gradients too, 3 weights too. Whatever the arithmetic, weights that
train are float32, as on one process, so the engine computes in float32 and bf16 is autocast's.

The engine is told of each micro-batch and of the update by itself, so that nothing is updated before the step's loss
and gradient were looked at. A few of its names are not public: those of version 0.19.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import math
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

_BUCKET = 2**25
"""Numbers that are exchanged at once: 128 MiB of them."""


@contextmanager
def loaded_in_pieces(stage: int, *, half: bool, device: str) -> Iterator[None]:
    """While inside, ``from_pretrained`` leaves each rank its pieces of the weights where ``stage`` is 3.

    The first rank reads the files, a module at a time; the others get their pieces from it. ``half`` says that the
    weights are held in bf16.
    """
    if stage != 3:
        yield
        return
    _deepspeed(device)
    from transformers.integrations.deepspeed import HfDeepSpeedConfig, unset_hf_deepspeed_config

    # Transformers looks at it for as long as it exists.
    config = HfDeepSpeedConfig({**_config(stage, device), "bf16": {"enabled": half}})
    try:
        yield
    finally:
        unset_hf_deepspeed_config()
        del config


def start_engine(
    model: Any, optimizer: Any, *, stage: int, max_grad_norm: float, device: str
) -> tuple[Any, "ZeroOptimizer"]:
    """``model`` in an engine, and its optimizer as one process would have it. ``optimizer`` becomes the engine's."""
    groups = [{**group, "params": list(group["params"])} for group in optimizer.param_groups]
    engine, *_ = _deepspeed(device).initialize(
        model=model, optimizer=optimizer, config={**_config(stage, device), "gradient_clipping": max_grad_norm}
    )
    return engine, ZeroOptimizer(engine, groups)


def is_engine(model: Any) -> bool:
    return hasattr(model, "set_gradient_accumulation_boundary")


def backward(engine: Any, loss: torch.Tensor) -> None:
    """Add the gradients of ``loss`` to those of the step; they are averaged over the ranks."""
    engine.backward(loss, scale_wrt_gas=False)


def gradient_norm(engine: Any) -> float:
    """The norm of the step's gradient over all ranks, before clipping; NaN where it is no number."""
    optimizer = engine.optimizer
    if hasattr(optimizer, "scaled_global_norm"):
        norm = float(optimizer.scaled_global_norm())
    else:
        norm = math.hypot(*(one if one >= 0 else math.nan for one in map(float, optimizer._get_norm_groups())))
    # It says inf or a negative number of all that is none.
    return norm if 0 <= norm < math.inf else math.nan


class ZeroOptimizer(torch.optim.Optimizer):
    """AdamW of whole parameters, as the schedule and saves see it; the engine has one of this rank's pieces.

    The settings of ``param_groups`` count. ``state_dict`` has ``Moment``s in the place of tensors.
    """

    def __init__(self, engine: Any, groups: list[dict[str, Any]]) -> None:
        self._engine = engine
        super().__init__(groups, {})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # it takes no closure
        """Clip, and update the weights. What the gradient's norm is was asked before."""
        for group, inner in zip(self._used, self._inner.param_groups, strict=True):
            inner.update({name: value for name, value in group.items() if name != "params"})
        self._engine.step()
        # Stage 3 would use a gradient again where the next step has none of that weight.
        gradients = getattr(self._engine.optimizer, "grad_partitions_flat_buffer", None)
        if gradients is not None:
            gradients.zero_()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """The engine's step has done it."""

    def state_dict(self) -> dict[str, Any]:
        """As one process would have it. Nothing is gathered yet."""
        piece = self._pieces[0]
        inner = self._inner.state.get(piece, {})
        state = {}
        if inner:
            self._link()
            for index, parameter in enumerate(self._parameters):
                state[index] = {
                    name: Moment(parameter, name) if value.shape == piece.shape else value
                    for name, value in inner.items()
                }
        return {"state": state, "param_groups": super().state_dict()["param_groups"]}

    @torch.no_grad()
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` says, with tensors as ``as_held`` gives them, and from the model's weights."""
        for group, stored in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update({name: value for name, value in stored.items() if name != "params"})
        self._engine.optimizer.refresh_fp32_params()
        state = state_dict["state"]
        if not state:
            return
        first = next(iter(state.values()))
        counted = {name: value for name, value in first.items() if value.dim() == 0}
        for piece in self._pieces:
            self._inner.state[piece] = {
                name: value.to(piece.device, copy=True) if name in counted else torch.zeros_like(piece)
                for name, value in first.items()
            }
        self._link()
        for index, parameter in enumerate(self._parameters):
            for name, value in state.get(index, {}).items():
                if name not in counted:
                    _set_moment(parameter, name, value)

    def _link(self) -> None:
        """Tell stages 1 and 2 where each parameter's moments are: by themselves they look after the first group's
        first update, when other groups have none."""
        optimizer = self._engine.optimizer
        if hasattr(optimizer, "_lazy_init_hp_params_optimizer_state"):
            optimizer._hp_optimizer_states_linked = False
            optimizer._lazy_init_hp_params_optimizer_state()

    @property
    def _inner(self) -> Any:
        """The optimizer of this rank's pieces."""
        return self._engine.optimizer.optimizer

    @property
    def _pieces(self) -> list[torch.Tensor]:
        """This rank's float32 weights, flat, a tensor a group or several."""
        optimizer = self._engine.optimizer
        names = ("single_partition_of_fp32_groups", "fp32_partitioned_groups_flat")
        found: list[torch.Tensor] = next(getattr(optimizer, name) for name in names if hasattr(optimizer, name))
        return found

    @property
    def _used(self) -> list[dict[str, Any]]:
        """The engine drops groups without parameters."""
        return [group for group in self.param_groups if group["params"]]

    @property
    def _parameters(self) -> list[torch.nn.Parameter]:
        return [each for group in self.param_groups for each in group["params"]]


@dataclass(frozen=True, kw_only=False, slots=True)
class Moment:
    """A moment of ``parameter``, of which each rank holds a piece."""

    parameter: torch.nn.Parameter
    name: str

    def whole(self) -> torch.Tensor:
        """With all ranks' pieces; every rank has to ask."""
        from deepspeed.utils import safe_get_full_optimizer_state

        return safe_get_full_optimizer_state(self.parameter, self.name)


def is_cut(value: Any) -> bool:
    """Whether ``value`` is a weight of which this rank holds a piece only, as in stage 3."""
    return hasattr(value, "ds_id")


def is_flat(value: Any) -> bool:
    """Whether ``value`` is a weight that shares its memory with others, as in stages 1 and 2."""
    return hasattr(value, "_hp_mapping")


def shape_of(value: torch.Tensor) -> torch.Size:
    """That of the whole weight."""
    return torch.Size(getattr(value, "ds_shape", value.shape))


def whole_weight(weight: torch.Tensor) -> torch.Tensor:
    """A copy of a weight that ``is_cut``; every rank has to ask."""
    import deepspeed

    with deepspeed.zero.GatheredParameters([weight]):
        return weight.detach().clone()


def put_weight(weight: torch.Tensor, value: torch.Tensor) -> None:
    """Set a weight that ``is_cut`` to the whole ``value``; every rank has to ask."""
    import deepspeed

    with deepspeed.zero.GatheredParameters([weight], modifier_rank=0):
        weight.detach().copy_(value)


def piece_of(weight: Any, value: torch.Tensor) -> torch.Tensor:
    """This rank's piece of ``value`` as of a weight that ``is_cut``: flat, with zeros behind its end."""
    from deepspeed import comm

    size = weight.ds_tensor.numel()
    piece = value.flatten()[comm.get_rank(weight.ds_process_group) * size :][:size]
    return torch.nn.functional.pad(piece, (0, size - piece.numel()))


def _set_moment(parameter: Any, name: str, value: torch.Tensor) -> None:
    from deepspeed.utils import safe_set_full_optimizer_state, safe_set_local_optimizer_state

    if is_cut(parameter):
        safe_set_local_optimizer_state(parameter, value, name)
    else:
        safe_set_full_optimizer_state(parameter, value, name)


def _config(stage: int, device: str) -> dict[str, Any]:
    """The engine's settings, in DeepSpeed's words (https://www.deepspeed.ai/docs/config-json/)."""
    return {
        # Steps, micro-batches and their weights are ours.
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "zero_optimization": {
            "stage": stage,
            "overlap_comm": device == "cuda",
            "reduce_bucket_size": _BUCKET,
            "allgather_bucket_size": _BUCKET,
            "stage3_prefetch_bucket_size": _BUCKET,
            # Weights are gathered when they are used, and let go of after: none stays, however small, as small ones
            # of a bf16 base beside float32 adapters do not survive it
            # (https://github.com/deepspeedai/DeepSpeed/issues/8072).
            "stage3_max_reuse_distance": 0,
            "stage3_param_persistence_threshold": 0,
        },
    }


def _deepspeed(device: str) -> Any:
    """The library, which decides when it is imported what it computes on; told to compile nothing, and to be quiet."""
    os.environ["DS_ACCELERATOR"] = device
    import deepspeed

    # Ranks on CPUs would build an extension for their exchange, with whatever compiler there is or is not.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    # It calls them by the names that PyTorch had for them before.
    warnings.filterwarnings("ignore", "`torch.distributed.*is deprecated", FutureWarning)
    return deepspeed
