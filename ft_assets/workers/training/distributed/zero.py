"""DeepSpeed's engine: ZeRO's stages 1 to 3 (Rajbhandari et al. 2020, https://arxiv.org/abs/1910.02054).

Stage 1 divides AdamW's moments between ranks, 2 also gradients, 3 also weights. Trained weights are float32, as on one
process, so the engine computes in float32 and bf16 comes from autocast.

The engine gets each micro-batch and the update in separate calls, so that nothing is updated before the step's loss and
gradient norm were checked; Accelerate's plug-in updates inside the last backward pass
(``docs/decisions/deepspeed-is-called-by-us.md``). Some of the names used here are not public: those of version 0.19.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import math
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from ft_assets.workers.training.distributed.sharding import Sharding, computing

_BUCKET = 2**25
"""Numbers exchanged at once: 128 MiB."""


class Zero(Sharding):
    """Ranks divide moments, gradients or weights, according to ``stage``. Weights are loaded as bf16 if ``half``."""

    clips = True

    def __init__(self, stage: int, device: str, *, half: bool) -> None:
        self._stage, self._device, self._half = stage, device, half
        self.gathers = stage == 3

    @contextmanager
    def loading(self) -> Iterator[dict[str, Any]]:
        """In stage 3 the first rank reads the files, a module at a time; the others get their pieces from it."""
        if self._stage != 3:
            yield {}
            return
        load_deepspeed(self._device)
        from transformers.integrations.deepspeed import HfDeepSpeedConfig, unset_hf_deepspeed_config

        # Transformers uses the configuration while the object exists.
        config = HfDeepSpeedConfig({**engine_config(self._stage, self._device), "bf16": {"enabled": self._half}})
        try:
            yield {}
        finally:
            unset_hf_deepspeed_config()
            del config

    def wrap(self, accelerator: Any, model: Any, optimizer: Any, max_grad_norm: float) -> tuple[Any, "ZeroOptimizer"]:
        """An engine, and the optimizer as on one process. ``optimizer`` becomes the engine's."""
        groups = [{**group, "params": list(group["params"])} for group in optimizer.param_groups]
        config = {**engine_config(self._stage, self._device), "gradient_clipping": max_grad_norm}
        engine, *_ = load_deepspeed(self._device).initialize(
            model=computing(accelerator, model), optimizer=optimizer, config=config
        )
        return engine, ZeroOptimizer(engine, groups)

    def micro_batch(self, model: Any, *, last: bool) -> AbstractContextManager[None]:
        model.set_gradient_accumulation_boundary(last)
        return nullcontext()

    def backward(self, accelerator: Any, model: Any, loss: torch.Tensor) -> None:
        model.backward(loss, scale_wrt_gas=False)

    def gradient_norm(self, model: Any) -> float:
        optimizer = model.optimizer
        if hasattr(optimizer, "scaled_global_norm"):
            norm = float(optimizer.scaled_global_norm())
        else:
            norm = math.hypot(*(one if one >= 0 else math.nan for one in map(float, optimizer._get_norm_groups())))
        # DeepSpeed reports inf or a negative number for any non-finite norm.
        return norm if 0 <= norm < math.inf else math.nan

    def final_weights(self, model: Any, *, full: bool, kept: bool) -> dict[str, torch.Tensor]:
        """Gathered in stages 1 and 2 too, whose weights share their memory with others."""
        return self._gather(model, full=full, kept=kept)

    def shape(self, value: torch.Tensor) -> torch.Size:
        return torch.Size(getattr(value, "ds_shape", value.shape))

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor | Moment)

    def whole(self, value: Any) -> Any:
        if isinstance(value, Moment):
            return value.whole()
        if not _is_cut(value):
            return value
        import deepspeed

        with deepspeed.zero.GatheredParameters([value]):
            return value.detach().clone()

    @torch.no_grad()
    def put(self, target: torch.Tensor, value: torch.Tensor) -> None:
        if not _is_cut(target):
            target.copy_(value)
            return
        import deepspeed

        with deepspeed.zero.GatheredParameters([target], modifier_rank=0):
            target.detach().copy_(value)

    def held(self, target: Any, value: torch.Tensor) -> torch.Tensor:
        """For a divided weight: this rank's piece, flat, zero-padded at the end."""
        if not _is_cut(target):
            return value
        from deepspeed import comm

        size = target.ds_tensor.numel()
        piece = value.flatten()[comm.get_rank(target.ds_process_group) * size :][:size]
        return torch.nn.functional.pad(piece, (0, size - piece.numel()))


class ZeroOptimizer(torch.optim.Optimizer):
    """AdamW of whole parameters, as used by the schedule and saves; the engine's own covers this rank's pieces.

    The engine uses the settings of these ``param_groups``. ``state_dict`` has ``Moment``s instead of tensors.
    """

    def __init__(self, engine: Any, groups: list[dict[str, Any]]) -> None:
        self._engine = engine
        super().__init__(groups, {})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # it takes no closure
        """Clip, and update the weights."""
        for group, inner in zip(self._used, self._inner.param_groups, strict=True):
            inner.update({name: value for name, value in group.items() if name != "params"})
        self._engine.step()
        # Otherwise stage 3 would reuse a weight's gradient if the next step has none for it.
        gradients = getattr(self._engine.optimizer, "grad_partitions_flat_buffer", None)
        if gradients is not None:
            gradients.zero_()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Does nothing: the engine's step has already done it."""

    def state_dict(self) -> dict[str, Any]:
        """In the format of one process. Nothing is gathered yet."""
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
        """Resume from ``state_dict``, with tensors as ``Zero.held`` returns them, and from the weights."""
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
        """Let stages 1 and 2 register where each parameter's moments are. By themselves they do so at the first group's
        first update, when other groups have none yet."""
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
        """This rank's float32 weights, flat, one or several tensors per group."""
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
        """Gathered from all ranks' pieces; every rank must call it."""
        from deepspeed.utils import safe_get_full_optimizer_state

        return safe_get_full_optimizer_state(self.parameter, self.name)


def _is_cut(value: Any) -> bool:
    """Whether ``value`` is a weight of which this rank holds only a piece, as in stage 3."""
    return hasattr(value, "ds_id")


def _set_moment(parameter: Any, name: str, value: torch.Tensor) -> None:
    from deepspeed.utils import safe_set_full_optimizer_state, safe_set_local_optimizer_state

    if _is_cut(parameter):
        safe_set_local_optimizer_state(parameter, value, name)
    else:
        safe_set_full_optimizer_state(parameter, value, name)


def engine_config(stage: int, device: str) -> dict[str, Any]:
    """The engine's settings, in DeepSpeed's format (https://www.deepspeed.ai/docs/config-json/)."""
    return {
        # We handle steps, micro-batches and their weights.
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "zero_optimization": {
            "stage": stage,
            "overlap_comm": device == "cuda",
            "reduce_bucket_size": _BUCKET,
            "allgather_bucket_size": _BUCKET,
            "stage3_prefetch_bucket_size": _BUCKET,
            # Weights are gathered for use and released afterwards. None is kept, however small, as small ones of a bf16
            # base beside float32 adapters do not survive it (https://github.com/deepspeedai/DeepSpeed/issues/8072).
            "stage3_max_reuse_distance": 0,
            "stage3_param_persistence_threshold": 0,
        },
    }


def load_deepspeed(device: str) -> Any:
    """The library, which chooses its device at import, set to compile nothing and print no warnings."""
    os.environ["DS_ACCELERATOR"] = device
    import deepspeed

    # On CPUs, ranks would build an extension for communication, whether or not there is a compiler.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    # DeepSpeed uses names that PyTorch has deprecated.
    warnings.filterwarnings("ignore", "`torch.distributed.*is deprecated", FutureWarning)
    return deepspeed
