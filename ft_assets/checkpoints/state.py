"""A training run to files and back, without pickle: safetensors for tensors, JSON for the rest."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from ft_assets.checkpoints import saves
from ft_assets.checkpoints.saves import IncompleteSave

_REMEDY = "Delete this save's folder to go on from an older one, or all saves to start again."


def write_state(folder: Path, model: Any, optimizer: Any, scheduler: Any) -> None:
    """Write weights (those that train, in their dtype), optimizer, scheduler and random states into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(_on_cpu(_trained(model)), folder / saves.MODEL)
    _write_optimizer(folder, optimizer.state_dict())
    _write_json(folder / saves.SCHEDULER, scheduler.state_dict())
    _write_random(folder)


def read_state(folder: Path, model: Any, optimizer: Any, scheduler: Any) -> None:
    """Put the run back as ``write_state`` found it; call it last before training goes on, as anything may draw numbers.

    Raises IncompleteSave where the save does not fit the model or lacks the state of a parameter.
    """
    _read_weights(folder, model)
    _read_optimizer(folder, optimizer)
    scheduler.load_state_dict(json.loads((folder / saves.SCHEDULER).read_bytes()))
    _read_random(folder)


def _trained(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def _read_weights(folder: Path, model: torch.nn.Module) -> None:
    stored, current = load_file(folder / saves.MODEL), _trained(model)
    fits = stored.keys() == current.keys() and all(
        value.shape == current[name].shape and value.dtype == current[name].dtype for name, value in stored.items()
    )
    if not fits:
        raise IncompleteSave("the saved weights are not those of this model", where=saves.MODEL, remedy=_REMEDY)
    with torch.no_grad():
        for name, value in stored.items():
            current[name].copy_(value)


def _write_optimizer(folder: Path, state: dict[str, Any]) -> None:
    """``state`` is ``{"state": {index: {name: tensor or number}}, "param_groups": [...]}``."""
    tensors: dict[str, torch.Tensor] = {}
    numbers: dict[str, dict[str, Any]] = {}
    for index, values in state["state"].items():
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                tensors[f"{index}.{name}"] = value
            else:
                numbers.setdefault(str(index), {})[name] = value
    save_file(_on_cpu(tensors), folder / saves.OPTIMIZER)
    covered = sorted(state["state"])
    _write_json(
        folder / saves.OPTIMIZER_SETTINGS, {"groups": state["param_groups"], "numbers": numbers, "covered": covered}
    )


def _read_optimizer(folder: Path, optimizer: Any) -> None:
    settings = json.loads((folder / saves.OPTIMIZER_SETTINGS).read_bytes())
    state: dict[int, dict[str, Any]] = {int(index): dict(values) for index, values in settings["numbers"].items()}
    for name, value in load_file(folder / saves.OPTIMIZER).items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = value
    wanted = {index for group in optimizer.state_dict()["param_groups"] for index in group["params"]}
    covered = set(settings["covered"])
    # PyTorch takes a state that lacks parameters without a word and starts those afresh.
    if not covered or state.keys() != covered or not covered <= wanted:
        raise IncompleteSave(
            f"the optimizer's state has {len(state)} of {len(covered)} tensors, and the model trains {len(wanted)}",
            where=saves.OPTIMIZER,
            remedy=_REMEDY,
        )
    groups = [{**group, "betas": tuple(group["betas"])} for group in settings["groups"]]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _write_random(folder: Path) -> None:
    numpy_state: Any = np.random.get_state(legacy=False)
    tensors = {"torch": torch.get_rng_state(), "numpy": torch.from_numpy(numpy_state["state"]["key"].astype(np.int64))}
    for index in range(torch.cuda.device_count() if torch.cuda.is_initialized() else 0):
        tensors[f"cuda.{index}"] = torch.cuda.get_rng_state(index)
    save_file(tensors, folder / saves.RANDOM_STATES)
    version, words, gauss = random.getstate()
    numpy_rest = {
        "pos": int(numpy_state["state"]["pos"]),
        "has_gauss": int(numpy_state["has_gauss"]),
        "gauss": float(numpy_state["gauss"]),
    }
    _write_json(folder / saves.RANDOM, {"python": [version, list(words), gauss], "numpy": numpy_rest})


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


def _on_cpu(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.detach().to("cpu").contiguous() for name, value in tensors.items()}


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, allow_nan=False))
