"""Load a model for scoring, and leave the process as it was found afterwards."""

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ft_assets.base_models.token_ids import load_tokenizer
from ft_assets.base_models.weights import require_every_weight
from ft_assets.evals.vllm_writer import VllmWriter
from ft_assets.recipes.acceptance import Engine
from ft_resources.errors import BadBase, UserError


class NotFinite(UserError):
    """A model whose weights are, or that computes, no finite numbers."""

    def __init__(self, what: str) -> None:
        super().__init__(what, where="model", remedy="Its weights have probably diverged: lower the learning rate.")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what,)


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A causal language model ready to score, with its tokenizer.

    ``model`` is a transformers model or, with an adapter, a PEFT model around it. ``writer`` writes answers in its
    place where the recipe asks for another engine.
    """

    model: Any
    tokenizer: Any
    writer: VllmWriter | None = None

    @property
    def context_length(self) -> int:
        """Most tokens of one sequence, prompt and answer together."""
        return int(self.model.config.get_text_config().max_position_embeddings)

    @contextmanager
    def as_base(self) -> Iterator[None]:
        """While inside, the model answers as its base: the adapter, if there is one, is switched off."""
        with ExitStack() as stack:
            if hasattr(self.model, "disable_adapter"):
                stack.enter_context(self.model.disable_adapter())
            if self.writer is not None:
                stack.enter_context(self.writer.as_base())
            yield

    def merged(self) -> "LoadedModel":
        """The same model without the cost of an adapter beside it; this one must not be used afterwards.

        Only in float32, where merging changes nothing that matters: in bfloat16 small updates would be rounded away.
        """
        import torch

        if not hasattr(self.model, "merge_and_unload") or self.model.dtype != torch.float32:
            return self
        return LoadedModel(model=self.model.merge_and_unload(), tokenizer=self.tokenizer, writer=self.writer)

    def close(self) -> None:
        """Give back what another engine holds, before the next model is loaded."""
        if self.writer is not None:
            self.writer.close()


def load_model(
    folder: Path,
    adapter: Path | None = None,
    *,
    tokenizer_folder: Path | None = None,
    engine: Engine = "transformers",
) -> LoadedModel:
    """The model in ``folder``, with the PEFT adapter of folder ``adapter`` on top, on a GPU where one is.

    Weights are safetensors only and no code is run from the folder. On CPU everything is computed in float32:
    it is faster there than bfloat16 on most machines, and rounding does not blur paired differences.
    The tokenizer comes from ``tokenizer_folder`` where the weights' folder has none; it gives the ids of token packs.
    The attention is the trainer's, and rows in which documents could see each other are refused as there. Raises
    BadBase where weights are missing, for an architecture that is not trained here, and for a tokenizer that
    transformers cannot follow.
    """
    # Read by tqdm when it is imported: bars belong on a terminal, and a worker's log is a file.
    os.environ.setdefault("TQDM_DISABLE", "1")
    import torch
    from transformers import AutoModelForCausalLM

    from ft_assets.packs.isolation.architectures import require_packable_folder
    from ft_assets.packs.isolation.attention import ATTENTION, register
    from ft_assets.packs.isolation.guard import guard

    register()
    require_packable_folder(folder)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found: Any = AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=torch.float32 if device == "cpu" else "auto",
        attn_implementation=ATTENTION,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        output_loading_info=True,
    )
    model, loading = found
    require_every_weight(loading, str(folder))
    guard(model)
    if adapter is not None:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, str(adapter), is_trainable=False)
    tokenizer = load_tokenizer(tokenizer_folder or folder)
    if tokenizer.pad_token_id is None:
        # Padding is always masked, so any token will do; an end token is the one that every model has.
        if tokenizer.eos_token is None:
            raise BadBase(
                "the tokenizer has neither a padding nor an end-of-text token",
                where="tokenizer_config.json",
                remedy="Set eos_token in the base's tokenizer_config.json.",
            )
        tokenizer.pad_token = tokenizer.eos_token
    loaded = LoadedModel(model=model.to(device).eval().requires_grad_(False), tokenizer=tokenizer)
    if engine == "transformers":
        return loaded
    names = tokenizer_folder or folder
    writer = VllmWriter(folder, adapter, tokenizer_folder=names, context_length=loaded.context_length)
    return replace(loaded, writer=writer)


def require_finite(loaded: LoadedModel) -> None:
    """Raise NotFinite where a weight is no finite number: such a model answers all the same, and it means nothing."""
    for name, weights in loaded.model.named_parameters():
        if not bool(weights.isfinite().all()):
            raise NotFinite(f"{name} is not all finite numbers")


@contextmanager
def seeded(seed: int, model: Any) -> Iterator[None]:
    """Seed every generator inside, and restore them and the model's training mode afterwards."""
    import numpy as np
    import torch

    python, legacy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    training = bool(model.training)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    try:
        model.eval()
        yield
    finally:
        model.train(training)
        random.setstate(python)
        np.random.set_state(legacy)
        torch.set_rng_state(cpu)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
