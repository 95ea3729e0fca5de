"""A guard on a model's inputs: rows in which documents could see each other are refused before any computation.

Transformers itself detects documents only if there is neither a mask nor a cache: with ``use_cache=True``, which many
configs set, they contaminate each other silently.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from transformers import PreTrainedModel

from ft_assets.workers.packs.isolation.attention import ATTENTION, BrokenIsolation, MissingBoundaries
from ft_assets.workers.packs.isolation.context import Slice
from ft_assets.workers.packs.isolation.told import TOLD, is_told, tell


def guard(model: torch.nn.Module) -> None:
    """Hook every Transformers model in ``model`` (below PEFT, DDP, FSDP or ``torch.compile``), so that in each call

    * positions that restart inside a row need boundaries (``cu_seq_lens_q``), masked or not;
    * boundaries switch ``use_cache`` off, and need matching positions, no mask, no cache, and our attention;
    * they reach layers that mix tokens and can be told of them (``told``): as ``seq_idx``, the number of each token's
      document, int32 [1, tokens], too.

    Boundaries on the CPU, as in ``MicroBatch``, cost no GPU synchronisation: positions on a GPU are compared with them
    by shape only. Guarding twice changes nothing.

    Raises BrokenIsolation if the model's attention is not ours, or none is found.
    """
    found = [module for module in model.modules() if isinstance(module, PreTrainedModel)]
    if not found:
        raise BrokenIsolation(f"{type(model).__name__} holds no model of Transformers")
    _require_our_attention(found[0])
    tell(model)
    inside: dict[str, Any] | None = {} if is_told(model) else None
    for module in found:
        if not any(isinstance(hook, _Door) for hook in module._forward_pre_hooks.values()):
            module.register_forward_pre_hook(_Door(module, inside), with_kwargs=True)
            if inside is not None and module is found[0]:
                module.register_forward_hook(lambda *_: inside.clear(), always_call=True)


class _Door:
    """The hook of one module: checks a call's arguments, and completes those of packed rows.

    ``inside`` is shared by the doors of a model with layers that are told of boundaries, and holds the boundaries of
    the current call: some models do not pass them to the model inside. None for models without such layers.
    """

    def __init__(self, module: PreTrainedModel, inside: dict[str, Any] | None) -> None:
        self._names = list(inspect.signature(module.forward).parameters)
        self._inside = inside

    def __call__(
        self, module: PreTrainedModel, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[()], dict[str, Any]] | None:
        named = {**dict(zip(self._names, args, strict=False)), **kwargs}
        positions, boundaries = named.get("position_ids"), named.get("cu_seq_lens_q")
        if boundaries is None and self._inside and named.get("attention_mask") is None:
            return (), {**named, **self._inside}
        if boundaries is None:
            mask = named.get("attention_mask")
            if positions is not None and not _is_made(mask) and starts_again(positions, mask):
                raise MissingBoundaries("positions start again inside a row, but cu_seq_lens_q does not say where")
            return None
        _require_our_attention(module)
        for name in ("attention_mask", "past_key_values"):
            if named.get(name) is not None and not _is_made(named[name]):
                raise BrokenIsolation(f"packed rows came with {name}, which knows nothing of their documents")
        if positions is None:
            raise MissingBoundaries("boundaries came without position_ids")
        boundaries = boundaries.cpu()
        _require_fit(positions, boundaries, named.get("row_slice"))
        named |= {"cu_seq_lens_q": boundaries, "use_cache": False}
        if "max_length_q" not in named:
            # Once for all layers; the fused functions read them on the device.
            named["cu_seq_lens_k"] = boundaries.to(positions.device, non_blocking=True)
            named["max_length_q"] = int(boundaries.diff().max())
            if self._inside is not None:
                if named.get("row_slice") is not None:
                    raise BrokenIsolation("a layer that mixes tokens cannot compute a slice of a row")
                named["seq_idx"] = _numbers(boundaries).to(positions.device, non_blocking=True)
                self._inside |= {name: named[name] for name in TOLD}
        return (), named


def _is_made(mask: object) -> bool:
    """Whether these are the masks, one for each kind of layer, that Transformers makes for the text part of a
    composite; the composite's own inputs were checked before."""
    return isinstance(mask, dict)


def starts_again(positions: torch.Tensor, mask: torch.Tensor | None = None) -> bool:
    """Whether a token of a row has a position not larger than the one before it, ignoring padding (0 in ``mask``).

    ``positions`` is [..., tokens], ``mask`` [rows, tokens] or None; a mask with an entry for each query (4 axes)
    already defines which tokens see each other.
    """
    if positions.shape[-1] < 2 or (mask is not None and mask.ndim != 2):
        return False
    again = positions.diff(dim=-1) < 1
    if mask is not None:
        real = mask[:, -positions.shape[-1] :].to(torch.bool)
        again = again & (real[:, 1:] & real[:, :-1])
    return bool(again.any())


def _numbers(boundaries: torch.Tensor) -> torch.Tensor:
    """The number of each token's document, int32 [1, tokens]."""
    lengths = boundaries.diff().long()
    return torch.arange(len(lengths), dtype=torch.int32).repeat_interleave(lengths)[None]


def _require_our_attention(module: PreTrainedModel) -> None:
    used = module.config._attn_implementation
    if used != ATTENTION:
        raise BrokenIsolation(f"packed rows need the attention {ATTENTION!r}; {type(module).__name__} has {used!r}")


def _require_fit(positions: torch.Tensor, boundaries: torch.Tensor, row_slice: Slice | None) -> None:
    """Require boundaries that cover the row and are exactly where positions restart; on a GPU only the shapes are
    checked. With ``row_slice`` the positions are those of this rank's slice of the row."""
    if positions.numel() != positions.shape[-1]:
        raise MissingBoundaries(f"packed rows are one row, not {tuple(positions.shape)}")
    tokens = positions.shape[-1] * (row_slice.group.size if row_slice else 1)
    starts, ends = boundaries[:-1], boundaries[1:]
    if not len(starts) or int(starts[0]) or int(ends[-1]) != tokens or bool((ends <= starts).any()):
        raise MissingBoundaries(f"boundaries do not fit a row of {tokens} tokens")
    if positions.device.type != "cpu":
        return
    expected = torch.arange(tokens) - torch.repeat_interleave(starts, ends - starts)
    if row_slice:
        expected = row_slice.group.slice_of(expected)
    if not torch.equal(expected.to(positions.dtype), positions.reshape(-1)):
        raise MissingBoundaries("positions do not start again where the boundaries say that documents do")
