"""Merging a LoRA adapter into its base's weights, in the base's own files: W + scale · B · A.

The scale is alpha / rank, or alpha / sqrt(rank) with ``use_rslora``. With ``use_dora`` each output's row of the sum
then gets the length that the adapter has for it (https://arxiv.org/abs/2402.09353, equation 5). Computed in float64 and
rounded once to the base's dtype. So the merged model equals base plus adapter up to this rounding, and the bytes are
equal each time. Rows are changed in place: neither the model nor a whole tensor is held in memory.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ft_assets.workers.base_models.tensors import Stored, decoded, encoded, read_header
from ft_resources.errors import BadBase

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
_PART = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<part>A|B|magnitude_vector)(\.weight)?")
_LENGTHS = "magnitude_vector"
_HEADS = ("lm_head", "embed_out")
# PEFT settings that change the formula; training here leaves all of them off.
_OTHER_FORMULAS = ("alpha_pattern", "rank_pattern", "layer_replication", "lora_bias")
_ROWS_AT_ONCE = 1024
_INSTEAD = "Train that recipe with variant full, whose model needs no merging, and name its adapter."


def merge_adapter(
    config: Mapping[str, Any],
    weights: Path,
    shards: Sequence[Path],
    *,
    tied: bool,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Add the adapter with this ``adapter_config.json`` and these ``weights`` to the model in ``shards``, in place.

    ``tied`` says that the output head is the embedding; ``report`` is called with the number of modules done. Raises
    BadBase for anything but LoRA and DoRA over linear layers, and for modules that are not in the files by name.
    """
    _require_plain(config)
    scaling = config["lora_alpha"] / (math.sqrt(config["r"]) if config.get("use_rslora") else config["r"])
    tensors = {name: stored for shard in shards for name, stored in read_header(shard)[0].items()}
    updates = _updates(read_header(weights)[0], config["r"], with_lengths=bool(config.get("use_dora")))
    for done, (module, update) in enumerate(sorted(updates.items())):
        report(done, len(updates))
        if tied and module.rsplit(".", 1)[-1] in _HEADS:
            raise BadBase(
                f"the adapter changes {module}, which is the embedding too: merged, both would change",
                where=CONFIG,
                remedy=_INSTEAD,
            )
        _add(_target(module, tensors), update, scaling, transposed=bool(config.get("fan_in_fan_out")))


def _require_plain(config: Mapping[str, Any]) -> None:
    odd = [name for name in _OTHER_FORMULAS if config.get(name)]
    if config.get("peft_type") != "LORA" or config.get("bias", "none") != "none" or odd:
        what = odd[0] if odd else f"{config.get('peft_type')} with bias {config.get('bias', 'none')}"
        raise BadBase(f"the adapter is not a plain LoRA ({what}) and cannot be merged", where=CONFIG, remedy=_INSTEAD)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Update:
    """``a`` [rank, in], ``b`` [out, rank] and, of DoRA, the length of each output's row of the sum [out]."""

    a: Stored
    b: Stored
    lengths: Stored | None


def _updates(tensors: Mapping[str, Stored], rank: int, *, with_lengths: bool) -> dict[str, _Update]:
    """The adapter's updates by module. Raises BadBase for tensors that are not updates of this rank."""
    sides: dict[str, dict[str, Stored]] = {}
    for name, stored in tensors.items():
        found = _PART.fullmatch(name)
        if found is None:
            raise BadBase(
                f"the adapter has {name}, which is not an update of a linear layer", where=WEIGHTS, remedy=_INSTEAD
            )
        sides.setdefault(found["module"], {})[found["part"]] = stored
    for module, each in sides.items():
        fits = set(each) == ({"A", "B", _LENGTHS} if with_lengths else {"A", "B"})
        fits = fits and len(each["A"].shape) == len(each["B"].shape) == 2
        if not fits or (each["A"].shape[0], each["B"].shape[1]) != (rank, rank):
            raise BadBase(f"the adapter of {module} is not of rank {rank}", where=WEIGHTS, remedy=_INSTEAD)
    return {module: _Update(a=each["A"], b=each["B"], lengths=each.get(_LENGTHS)) for module, each in sides.items()}


def _target(module: str, tensors: Mapping[str, Stored]) -> Stored:
    """The module's matrix. Some files omit the first parts of names, which Transformers adds back; older composites
    have another name for their text part."""
    _, found, inside = module.partition(".language_model.")
    for older in ("language_model.model", "model") if found else ():
        stored = tensors.get(f"{older}.{inside}.weight")
        if stored is not None:
            return stored
    parts = module.split(".")
    for start in range(len(parts)):
        stored = tensors.get(".".join([*parts[start:], "weight"]))
        if stored is not None:
            return stored
    raise BadBase(
        f"the base's files have no {module}.weight: this architecture stores its matrices in another form, and "
        "merging them is not supported",
        where="base_model",
        remedy=_INSTEAD,
    )


def _add(target: Stored, update: _Update, scaling: float, *, transposed: bool) -> None:
    """Change the stored matrix; ``transposed``: it is stored as [in, out], as in GPT-2's layers."""
    a, b = (decoded(side.open()[:], side.dtype) for side in (update.a, update.b))
    left, right = (a.T, b.T) if transposed else (b, a)
    if (left.shape[0], right.shape[1]) != target.shape:
        raise BadBase(
            f"the adapter's update of {target.name} is {left.shape[0]} × {right.shape[1]}, and the base's matrix is "
            f"{' × '.join(map(str, target.shape))}",
            where=WEIGHTS,
            remedy="Name an adapter that was trained on this very base.",
        )
    matrix = target.open(write=True)
    pieces = [slice(start, start + _ROWS_AT_ONCE) for start in range(0, len(matrix), _ROWS_AT_ONCE)]

    def summed(rows: slice) -> Any:
        return decoded(matrix[rows], target.dtype) + scaling * (left[rows] @ right)

    factors: Any = np.ones(target.shape[transposed])
    if update.lengths is not None:
        squares = (summed(rows) ** 2 for rows in pieces)
        found = (
            sum(each.sum(0) for each in squares) if transposed else np.concatenate([each.sum(1) for each in squares])
        )
        factors = decoded(update.lengths.open()[:], update.lengths.dtype) / np.sqrt(found)
    for rows in pieces:
        merged = summed(rows) * (factors if transposed else factors[rows, None])
        matrix[rows] = encoded(merged, target.dtype, target.name)
    matrix.flush()
