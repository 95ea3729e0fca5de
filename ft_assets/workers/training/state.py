"""Serialise a training run without pickle: safetensors for tensors, JSON for the rest."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from ft_assets.workers.training import saves
from ft_assets.workers.training.distributed.sharding import Sharding
from ft_assets.workers.training.saves import IncompleteSave
from ft_assets.workers.training.variants.pissa import is_principal


@dataclass(frozen=True, kw_only=True, slots=True)
class RandomStates:
    """All random number generators that a step may draw from."""

    tensors: dict[str, torch.Tensor]
    python: tuple[Any, ...]
    numpy: dict[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunState:
    """A copy of a run's state, so that training continues while it is written.

    ``weights`` are those that train, in their dtype; ``moments`` are the optimizer's tensors by ``<index>.<name>``.
    """

    weights: dict[str, torch.Tensor]
    moments: dict[str, torch.Tensor]
    optimizer: str
    scheduler: str
    random: RandomStates


class HostCopies:
    """Buffers in host memory for copies of a run's state, reused by each copy. For GPUs they are pinned, so that copies
    run at full speed."""

    def __init__(self) -> None:
        self._buffers: dict[str, torch.Tensor] = {}

    def take(
        self,
        model: Any,
        optimizer: Any,
        scheduler: Any,
        random_states: RandomStates,
        sharding: Sharding,
        *,
        kept: bool = True,
    ) -> RunState:
        """The current state; overwrites the previous copy.

        For a sharded model every rank must call this; ranks without ``kept`` get no tensors.
        """
        state = optimizer.state_dict()
        moments: dict[str, Any] = {}
        numbers: dict[str, dict[str, Any]] = {}
        for index, values in state["state"].items():
            for name, value in _flat(values):
                if sharding.is_tensor(value):
                    moments[f"{index}.{name}"] = value
                else:
                    numbers.setdefault(str(index), {})[name] = value
        settings = {"groups": state["param_groups"], "numbers": numbers, "covered": sorted(state["state"])}
        copied = RunState(
            weights=self._copied("weights", _trained(model), sharding, kept),
            moments=self._copied("moments", moments, sharding, kept),
            optimizer=_json(settings),
            scheduler=_json(scheduler.state_dict()),
            random=random_states,
        )
        if torch.cuda.is_initialized():
            torch.cuda.current_stream().synchronize()
        return copied

    def _copied(self, kind: str, tensors: dict[str, Any], sharding: Sharding, kept: bool) -> dict[str, torch.Tensor]:
        copies = {}
        for name, value in tensors.items():
            # One at a time: no rank has memory for all of them together.
            gathered = sharding.whole(value).detach()
            if kept:
                copies[name] = self._copy(f"{kind}.{name}", gathered)
        return copies

    def _copy(self, name: str, value: torch.Tensor) -> torch.Tensor:
        buffer = self._buffers.get(name)
        if buffer is None or buffer.shape != value.shape or buffer.dtype != value.dtype:
            buffer = self._buffers[name] = _host_buffer(value)
        return buffer.copy_(value, non_blocking=True)


def random_states() -> RandomStates:
    """The current state of all generators."""
    numpy_state: Any = np.random.get_state(legacy=False)
    tensors = {"torch": torch.get_rng_state(), "numpy": torch.from_numpy(numpy_state["state"]["key"].astype(np.int64))}
    for index in range(torch.cuda.device_count() if torch.cuda.is_initialized() else 0):
        tensors[f"cuda.{index}"] = torch.cuda.get_rng_state(index)
    return RandomStates(
        tensors=tensors,
        python=random.getstate(),
        numpy={
            "pos": int(numpy_state["state"]["pos"]),
            "has_gauss": int(numpy_state["has_gauss"]),
            "gauss": float(numpy_state["gauss"]),
        },
    )


def write_state(folder: Path, state: RunState) -> None:
    """Write ``state`` into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state.weights, folder / saves.MODEL)
    save_file(state.moments, folder / saves.OPTIMIZER)
    (folder / saves.OPTIMIZER_SETTINGS).write_text(state.optimizer)
    (folder / saves.SCHEDULER).write_text(state.scheduler)
    save_file(state.random.tensors, folder / saves.RANDOM_STATES)
    version, words, gauss = state.random.python
    rest = {"python": [version, list(words), gauss], "numpy": state.random.numpy}
    (folder / saves.RANDOM).write_text(_json(rest))


def read_state(folder: Path, model: Any, optimizer: Any, scheduler: Any, sharding: Sharding) -> None:
    """Restore what ``write_state`` saved. Call it last before training continues, as anything else may draw numbers.

    Raises IncompleteSave if the save does not fit the model or lacks a parameter's state.
    """
    _read_weights(folder, model, sharding)
    _read_optimizer(folder, optimizer, sharding)
    scheduler.load_state_dict(json.loads((folder / saves.SCHEDULER).read_bytes()))
    _read_random(folder)


def _flat(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """A parameter's state. bitsandbytes nests tensors in a dictionary, but also takes them without it."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from value.items()
        else:
            yield name, value


def _trained(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value for name, value in model.named_parameters() if value.requires_grad or is_principal(name)}


def _read_weights(folder: Path, model: torch.nn.Module, sharding: Sharding) -> None:
    current = _trained(model)
    names = set()
    for name, value in _tensors(folder / saves.MODEL):
        target = current.get(name)
        if target is None or value.shape != sharding.shape(target) or value.dtype != target.dtype:
            break
        sharding.put(target, value)
        names.add(name)
    if names != current.keys():
        raise IncompleteSave("the saved weights are not those of this model", where=saves.MODEL, remedy=saves.REMEDY)


def _read_optimizer(folder: Path, optimizer: Any, sharding: Sharding) -> None:
    settings = json.loads((folder / saves.OPTIMIZER_SETTINGS).read_bytes())
    state: dict[int, dict[str, Any]] = {int(index): dict(values) for index, values in settings["numbers"].items()}
    trained = [each for group in optimizer.param_groups for each in group["params"]]
    for name, value in _tensors(folder / saves.OPTIMIZER):
        index, key = name.split(".", 1)
        target = trained[int(index)] if int(index) < len(trained) else value
        whole = value.shape == sharding.shape(target)
        state.setdefault(int(index), {})[key] = sharding.held(target, value) if whole else value
    wanted = {index for group in optimizer.state_dict()["param_groups"] for index in group["params"]}
    covered = set(settings["covered"])
    # PyTorch silently accepts a state that lacks parameters, and starts those afresh.
    if not covered or state.keys() != covered or not covered <= wanted:
        raise IncompleteSave(
            f"the optimizer's state has {len(state)} of {len(covered)} tensors, and the model trains {len(wanted)}",
            where=saves.OPTIMIZER,
            remedy=saves.REMEDY,
        )
    groups = [_group(group) for group in settings["groups"]]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _group(stored: dict[str, Any]) -> dict[str, Any]:
    """A parameter group as the optimizer had it: JSON made lists of its tuples, such as AdamW's betas."""
    return {
        name: tuple(value) if isinstance(value, list) and name != "params" else value for name, value in stored.items()
    }


def _read_random(folder: Path) -> None:
    tensors, rest = load_file(folder / saves.RANDOM_STATES), json.loads((folder / saves.RANDOM).read_bytes())
    version, words, gauss = rest["python"]
    random.setstate((version, tuple(words), gauss))
    key = tensors["numpy"].numpy().astype(np.uint32)
    np.random.set_state(
        {
            "bit_generator": "MT19937",
            "state": {"key": key, "pos": rest["numpy"]["pos"]},
            "has_gauss": rest["numpy"]["has_gauss"],
            "gauss": rest["numpy"]["gauss"],
        }
    )
    torch.set_rng_state(tensors["torch"])
    for index in range(torch.cuda.device_count() if torch.cuda.is_initialized() else 0):
        if f"cuda.{index}" in tensors:
            torch.cuda.set_rng_state(tensors[f"cuda.{index}"], index)


def _tensors(path: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors in a file, one at a time, as ranks that hold shards have no memory for all of them."""
    with safe_open(path, "pt") as file:
        for name in file.keys():  # noqa: SIM118 -- it is not a dict
            yield name, file.get_tensor(name)


def _host_buffer(value: torch.Tensor) -> torch.Tensor:
    """Memory for a copy of ``value``, pinned for a GPU's; ordinary memory if no more can be pinned."""
    try:
        return torch.empty(value.shape, dtype=value.dtype, device="cpu", pin_memory=value.is_cuda)
    except RuntimeError:
        return torch.empty(value.shape, dtype=value.dtype, device="cpu")


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)
