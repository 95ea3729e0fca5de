"""Whether documents of a base are packed or run apart: packed where it is proved that they cannot see each other."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ft_assets.settings.catalogue.composites import require_text_part
from ft_assets.workers.packs.format import Window
from ft_assets.workers.packs.isolation.architectures import (
    REMEDY,
    require_causal,
    require_known,
    require_packable_modules,
)
from ft_assets.workers.packs.isolation.attention import ATTENTION, LooksAhead, register
from ft_assets.workers.packs.isolation.forward import run_apart
from ft_assets.workers.packs.isolation.guard import guard
from ft_assets.workers.packs.isolation.leak_check import compare
from ft_assets.workers.packs.isolation.tiny import tiny_model
from ft_resources.errors import BadBase

Asked = Literal["auto", "packed", "apart"]
_TRIED = (70, 9, 33, 90)
"""Tokens of the documents that are compared, some longer than the filler's."""


@dataclass(frozen=True, slots=True)
class Choice:
    """``mode``, and ``why`` as a clause. ``kind`` is the base's ``model_type``, ``attention`` the implementation that a
    model must be loaded with; None for the one that Transformers chooses."""

    mode: Literal["packed", "apart"]
    why: str
    attention: str | None
    kind: str

    @property
    def loading(self) -> dict[str, str]:
        """Arguments of ``from_pretrained``."""
        return {"attn_implementation": self.attention} if self.attention else {}

    def prepare(self, model: Any) -> None:
        """Make a model that was loaded so refuse packed rows in which documents could see each other, or run them
        apart. Raises BadBase for a layer that cannot be packed."""
        if self.mode == "packed":
            require_packable_modules(model)
            guard(model)
        else:
            run_apart(model)


def choose(folder: Path, asked: Asked = "auto", *, max_length: int | None = None) -> Choice:
    """How documents of up to ``max_length`` tokens run through the model in ``folder``.

    Raises BadBase for a model that is not causal, for one that Transformers does not have, and where ``packed`` is
    asked for and documents would see each other.
    """
    from transformers import AutoConfig

    values = json.loads((folder / "config.json").read_bytes())
    kind = str(values.get("model_type"))
    require_text_part(values, "config.json")
    require_known(kind)
    register()
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    require_causal(config)
    refusal = _refusal(json.dumps(config.to_dict(), default=str), max_length)
    if isinstance(refusal, LooksAhead) or (asked == "packed" and refusal is not None):
        raise refusal
    if asked != "apart" and refusal is None:
        return Choice("packed", "documents lose the same in one row as alone", ATTENTION, kind)
    # SDPA leaves a softcap out, and would train another model.
    softcap = getattr(config.get_text_config(), "attn_logit_softcapping", None)
    why = "the recipe asks for it" if refusal is None or asked == "apart" else refusal.what
    return Choice("apart", why, None if softcap is None else "eager", kind)


@cache
def _refusal(config: str, max_length: int | None) -> BadBase | None:
    """Why documents of this architecture cannot be packed; None if they can, shown at tiny size."""
    try:
        model = tiny_model(json.loads(config), max_length=max_length)
        guard(model)
        comparison = compare(model, None, _documents(model.config.get_text_config().vocab_size, max_length))
    except BadBase as error:
        return error
    except Exception as error:  # Whatever an architecture does not expect of rows with several documents.
        what = f"packed rows fail in a trial at tiny size: {type(error).__name__}: {error}"
        return BadBase(what, where="base_model", remedy=REMEDY)
    if comparison.passed:
        return None
    return BadBase(
        "documents packed into one row change each other's losses, by trial at tiny size",
        where="base_model",
        remedy=REMEDY,
    )


def _documents(vocabulary: int, max_length: int | None) -> Window:
    """Random documents of which everything is learned."""
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
