"""Whether documents of a base are packed or run apart: packed where it is proved that they cannot see each other."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.distributed as dist

from ft_assets.settings.catalogue.composites import require_text_part, text_settings
from ft_assets.workers.base_models.contents import base_json
from ft_assets.workers.packs.format import Window
from ft_assets.workers.packs.isolation.architectures import (
    REMEDY,
    require_causal,
    require_known,
    require_packable_modules,
)
from ft_assets.workers.packs.isolation.attention import ATTENTION, LooksAhead, register
from ft_assets.workers.packs.isolation.forward import run_apart
from ft_assets.workers.packs.isolation.fused_scores import fused
from ft_assets.workers.packs.isolation.guard import guard
from ft_assets.workers.packs.isolation.leak_check import compare
from ft_assets.workers.packs.isolation.tiny import MissingPackage, tiny_model
from ft_assets.workers.packs.isolation.told import Arithmetic, is_told, require_kept_apart
from ft_resources.errors import BadBase

Asked = Literal["auto", "packed", "apart"]
_TRIED = (70, 9, 33, 90)
"""Tokens of the documents that are compared, some longer than the filler's."""


@dataclass(frozen=True, slots=True)
class Choice:
    """``mode``, and ``why`` as a clause. ``kind`` is the base's ``model_type``, ``attention`` the implementation that a
    model must be loaded with; None for the one that Transformers chooses. ``told``: documents are packed only because
    layers that mix tokens are told where they begin."""

    mode: Literal["packed", "apart"]
    why: str
    attention: str | None
    kind: str
    told: bool = False

    @property
    def loading(self) -> dict[str, str]:
        """Arguments of ``from_pretrained``."""
        return {"attn_implementation": self.attention} if self.attention else {}

    def prepare(self, model: Any) -> None:
        """Make a model loaded with ``loading`` refuse packed rows in which documents could see each other, or run
        documents apart. Raises BadBase for a layer that cannot be packed."""
        if self.mode == "packed":
            require_packable_modules(model)
            guard(model)
        else:
            run_apart(model)


def choose(
    folder: Path,
    asked: Asked = "auto",
    *,
    max_length: int | None = None,
    arithmetic: Arithmetic | None = None,
) -> Choice:
    """How documents of up to ``max_length`` tokens run through the model in ``folder``.

    Layers that must be told where documents begin are tried with ``arithmetic``, the training's; by default in float32
    on the CPU.

    Raises BadBase for a model that is not causal, for one that Transformers does not have, and where ``packed`` is
    asked for and documents would see each other.
    """
    from transformers import AutoConfig

    values = base_json(folder / "config.json", str(folder))
    kind = str(values.get("model_type"))
    require_text_part(values, "config.json")
    require_known(kind)
    register()
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    require_causal(config)
    arithmetic = arithmetic or Arithmetic()
    tried = _try(json.dumps(config.to_dict(), default=str), max_length, arithmetic)
    if tried.told and not _on_every_rank(tried.refusal is None) and tried.refusal is None:
        what = "packed rows fail in a trial at tiny size on another rank"
        tried = replace(tried, refusal=BadBase(what, where="base_model", remedy=REMEDY))
    if isinstance(tried.refusal, LooksAhead | MissingPackage) or (asked == "packed" and tried.refusal is not None):
        raise tried.refusal
    why = tried.refusal.what if tried.refusal else ""
    if asked == "auto":
        why = why or _slower_packed(config.get_text_config(), tried, arithmetic)
    elif asked == "apart":
        why = "set in the recipe"
    if not why:
        return Choice("packed", "documents have the same loss in one row as alone", ATTENTION, kind, told=tried.told)
    if tried.softcap or tried.sinks:
        # Ours holds the scores of one layer at a time; SDPA leaves a softcap out, and would train another model.
        return Choice("apart", why, ATTENTION if tried.as_eager else "eager", kind)
    return Choice("apart", why, None, kind)


@dataclass(frozen=True, slots=True)
class _Tried:
    """What a trial at tiny size found: ``refusal`` is why documents cannot be packed, None if they can.

    ``as_eager``: our attention computes the architecture's ``softcap`` and ``sinks`` as its own attention does.
    """

    refusal: BadBase | None
    softcap: bool = False
    sinks: bool = False
    as_eager: bool = False
    told: bool = False


@cache
def _try(config: str, max_length: int | None, arithmetic: Arithmetic) -> _Tried:
    values = json.loads(config)
    softcap = text_settings(values).get("attn_logit_softcapping") is not None
    found = _Tried(None, softcap=softcap)
    try:
        model = tiny_model(values, max_length=max_length)
        found = replace(found, sinks=any("sink" in name for name, _ in model.named_parameters()))
        documents = _documents(model.config.get_text_config().vocab_size, max_length)
        guard(model)
        if found.softcap or found.sinks:
            _require_as_eager(model, documents)
            found = replace(found, as_eager=True)
        if is_told(model):
            found = replace(found, told=True)
            require_kept_apart(model, documents, arithmetic)
        elif not compare(model, None, documents).passed:
            what = "documents packed into one row change each other's losses, by trial at tiny size"
            raise BadBase(what, where="base_model", remedy=REMEDY)
    except BadBase as error:
        return replace(found, refusal=error)
    except Exception as error:  # Whatever an architecture does not expect of rows with several documents.
        what = f"packed rows fail in a trial at tiny size: {type(error).__name__}: {error}"
        return replace(found, refusal=BadBase(what, where="base_model", remedy=REMEDY))
    return found


@torch.no_grad()
def _require_as_eager(model: Any, documents: Window) -> None:
    """Raise BadBase unless our attention gives the results of the architecture's own."""
    ids = torch.from_numpy(documents.input_ids[: documents.document_lengths[0]].astype(np.int64))[None]
    packed = {
        "position_ids": torch.arange(ids.shape[1])[None],
        "cu_seq_lens_q": torch.tensor([0, ids.shape[1]], dtype=torch.int32),
    }
    ours = model(input_ids=ids, **packed).logits
    model.set_attn_implementation("eager")
    theirs = model(input_ids=ids, use_cache=False).logits
    model.set_attn_implementation(ATTENTION)
    if not torch.allclose(ours, theirs, rtol=1e-3, atol=1e-3 * float(theirs.abs().max())):
        what = "our attention has other results than the architecture's own, by trial at tiny size"
        raise BadBase(what, where="base_model", remedy=REMEDY)


def _on_every_rank(fine: bool) -> bool:
    """Whether ``fine`` is true on all ranks of a training, whose devices may differ."""
    if not dist.is_initialized():
        return fine
    found = torch.tensor(int(fine))
    dist.all_reduce(found, dist.ReduceOp.MIN)
    return bool(found)


def _slower_packed(text: Any, tried: _Tried, arithmetic: Arithmetic) -> str:
    """Why a base whose documents can be packed is faster with its documents apart on this device; "" if it is not."""
    device = torch.device(arithmetic.device)
    if device.type != "cuda" or not (tried.softcap or tried.sinks):
        return ""
    heads = int(text.num_attention_heads)
    keys = int(getattr(text, "num_key_value_heads", None) or heads)
    size = int(getattr(text, "head_dim", None) or text.hidden_size // heads)
    found = fused(device, arithmetic.dtype, (heads, keys, size), tried.softcap, tried.sinks)
    if _on_every_rank(found is not None):
        return ""
    what = " and ".join(name for name, has in (("a softcap", tried.softcap), ("sinks", tried.sinks)) if has)
    return (
        f"its attention has {what}, for which no fused function computes right on this device: packed documents "
        "would go through it one after the other"
    )


def _documents(vocabulary: int, max_length: int | None) -> Window:
    """Random documents, all learned."""
    draws = np.random.RandomState(0)
    lengths = np.minimum(_TRIED, max_length or max(_TRIED))
    tokens = int(lengths.sum())
    return Window(
        input_ids=draws.randint(vocabulary, size=tokens).astype(np.int32),
        learned=np.ones(tokens, np.bool_),
        document_lengths=lengths,
        examples=np.arange(len(_TRIED)),
        pieces=np.zeros(len(_TRIED), np.int32),
    )
