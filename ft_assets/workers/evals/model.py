"""Load a model for scoring, and restore the process's state afterwards."""

import inspect
import os
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ft_assets.settings.recipe.acceptance import Engine
from ft_assets.workers.base_models.tensors import stored_dtype
from ft_assets.workers.base_models.token_ids import load_tokenizer
from ft_assets.workers.base_models.weights import require_every_weight
from ft_assets.workers.evals.gguf_weights import reading, weights_of
from ft_assets.workers.evals.vllm_writer import VllmWriter
from ft_assets.workers.templates.source import own_template
from ft_assets.workers.tokenizers.chat_template import load_template
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadBase, UserError


class NotFinite(UserError):
    """A model with non-finite weights or results."""

    def __init__(self, what: str) -> None:
        super().__init__(what, where="model", remedy="Its weights have probably diverged: lower the learning rate.")


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A causal language model ready to score, with its tokenizer.

    ``model`` is a transformers model or, with an adapter, a PEFT model around it. ``writer`` generates the answers
    instead if the recipe asks for another engine. ``think_end`` ends thoughts by the template of a base that has some:
    lm-eval's ``think_end_token``.
    """

    model: Any
    tokenizer: Any
    think_end: str = ""
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
        """The same model with the adapter merged into its weights; this one must not be used afterwards.

        Merges only in float32, where it changes nothing that matters: in bfloat16 small updates would be rounded away.
        """
        import torch

        if not hasattr(self.model, "merge_and_unload") or self.model.dtype != torch.float32:
            return self
        return replace(self, model=self.model.merge_and_unload())

    def close(self) -> None:
        """Release another engine's memory before the next model is loaded."""
        if self.writer is not None:
            self.writer.close()


def load_model(
    folder: Path,
    adapter: Path | None = None,
    *,
    base_folder: Path | None = None,
    engine: Engine = "transformers",
    device: Literal["auto", "cpu"] = "auto",
) -> LoadedModel:
    """The model in ``folder``, with the PEFT adapter in folder ``adapter`` on top; on a GPU if there is one, unless
    ``device`` says otherwise.

    Weights are safetensors, or a GGUF file, only, and no code is run from the folder. On CPU everything is computed in
    float32: it is faster there than bfloat16 on most machines, and rounding does not blur paired differences.
    ``base_folder`` has the base of a full model: its tokenizer, which gives the same ids as token packs, and the dtype
    in which both are computed on a GPU. The attention is the trainer's. Raises BadBase for missing weights, an
    unsupported architecture, and a tokenizer that transformers cannot reproduce.
    """
    # tqdm reads it at import: progress bars belong on a terminal, and a worker's log is a file.
    os.environ.setdefault("TQDM_DISABLE", "1")
    import torch

    from ft_assets.workers.packs.isolation.architectures import auto_class
    from ft_assets.workers.packs.isolation.choice import choose

    choice = choose(folder)
    place = "cuda" if device == "auto" and torch.cuda.is_available() else "cpu"
    with reading(folder):
        found: Any = auto_class(choice.kind).from_pretrained(
            folder,
            dtype=computed_in(place, base_folder or folder),
            **choice.loading,
            **weights_of(folder),
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    model, loading = found
    require_every_weight(loading, str(folder))
    choice.prepare(model)
    if adapter is not None:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, str(adapter), is_trainable=False)
    tokenizer = load_tokenizer(base_folder or folder)
    if tokenizer.pad_token_id is None:
        # Padding is always masked, so any token will do; every model has an end token.
        if tokenizer.eos_token is None:
            raise BadBase(
                "the tokenizer has neither a padding nor an end-of-text token",
                where="tokenizer_config.json",
                remedy="Set eos_token in the base's tokenizer_config.json.",
            )
        tokenizer.pad_token = tokenizer.eos_token
    names = base_folder or folder
    model = model.to(place).eval().requires_grad_(False)
    loaded = LoadedModel(model=model, tokenizer=tokenizer, think_end=_think_end(names))
    if engine == "transformers":
        return loaded
    writer = VllmWriter(folder, adapter, tokenizer_folder=names, context_length=loaded.context_length)
    return replace(loaded, writer=writer)


def _think_end(folder: Path) -> str:
    if own_template(folder) is None:
        return ""
    try:
        probes = load_template(folder, ChatTokenizer.load(folder), None).probes
        return probes.output.closes if probes.thinks else ""
    except BadBase:
        # Suites that ask through the template say what is wrong with it.
        return ""


def computed_in(device: str, base_folder: Path) -> str:
    """The dtype in which a model is scored: on a GPU that of its base, so that both are rounded alike."""
    return "float32" if device == "cpu" else stored_dtype(base_folder)


def require_finite(loaded: LoadedModel) -> None:
    """Raise NotFinite if a weight is not finite: such a model still answers, but meaninglessly."""
    for name, weights in loaded.model.named_parameters():
        if not bool(weights.isfinite().all()):
            raise NotFinite(f"{name} is not all finite numbers")


def last_logits(model: Any, count: int) -> dict[str, int]:
    """Arguments by which ``model`` computes the logits of the last ``count`` places only; none if it computes all."""
    bare = model.get_base_model() if hasattr(model, "get_base_model") else model
    return {"logits_to_keep": count} if "logits_to_keep" in inspect.signature(bare.forward).parameters else {}


@contextmanager
def seeded(seed: int, model: Any) -> Iterator[None]:
    """Seed every generator inside, and restore them and the model's training mode afterwards."""
    import numpy as np
    import torch

    python, legacy, training = random.getstate(), np.random.get_state(), bool(model.training)
    with torch.random.fork_rng(range(torch.cuda.device_count())):
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
