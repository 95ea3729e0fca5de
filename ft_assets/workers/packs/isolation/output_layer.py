"""Losses of a model's learned tokens, without the logits of all of them at once.

Logits are tokens x vocabulary: 2 GiB in float32 for 4,096 tokens and a vocabulary of 128k, and as much again for their
gradients and for the softmax. Here some tokens at a time go through the output layer and the loss, and their logits are
computed again in the backward pass.

What an architecture does after its backbone (output layer, scale, softcap, adapters) is left to its own forward: it
is called for each part of the tokens while its backbone only hands out that part's hidden states.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.functional import cross_entropy, pad
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel, masking_utils

from ft_assets.workers.model_size.memory import LOGITS_AT_ONCE
from ft_assets.workers.packs.isolation.attention import ROWS_ARE_PACKED


def losses_at(
    model: Any, places: torch.Tensor, targets: torch.Tensor, *, packed: bool = False, **inputs: Any
) -> torch.Tensor:
    """Cross-entropy in nats of ``targets`` by the logits at ``places`` of the flattened rows, float32 [places].

    ``model`` is called with ``inputs`` and holds a model of Transformers, maybe below PEFT, DDP or FSDP, whose hooks
    all run; both tensors are int64 [places], on its device. ``packed`` says that a row holds several documents.
    """
    with _told(packed), _losing(transformer_of(model), places, targets):
        losses: torch.Tensor = model(**inputs)["losses"]
    return losses


def transformer_of(model: torch.nn.Module) -> PreTrainedModel:
    """The model of Transformers in ``model``, below PEFT, DDP, FSDP or ``torch.compile``."""
    return next(module for module in model.modules() if isinstance(module, PreTrainedModel))


@contextmanager
def _told(packed: bool) -> Iterator[None]:
    """While inside, Transformers is told whether rows are packed. On a GPU the host would otherwise wait in each
    forward pass until it has read that from the positions."""
    look = masking_utils.find_packed_sequence_indices
    masking_utils.find_packed_sequence_indices = lambda position_ids: position_ids if packed else None
    before = ROWS_ARE_PACKED.set(packed)
    try:
        yield
    finally:
        ROWS_ARE_PACKED.reset(before)
        masking_utils.find_packed_sequence_indices = look


@contextmanager
def _losing(inner: PreTrainedModel, places: torch.Tensor, targets: torch.Tensor) -> Iterator[None]:
    """While inside, ``inner`` answers with losses instead of logits."""
    original: Callable[..., Any] = inner.forward
    vocabulary = inner.config.get_text_config().vocab_size

    def forward(*args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:
        with _cut_off(inner) as answers:
            whole = original(*args, **kwargs)
        if not answers:
            logits = whole.logits
            return {"losses": _losses(logits.reshape(-1, logits.shape[-1])[places], targets)}
        answer = answers[0]

        def losses(part: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
            told = _with_hidden(answer, part[None])
            with _calling(inner.base_model, lambda *_, **__: told):
                return _losses(original(*args, **kwargs).logits[0], wanted)

        learned = answer.last_hidden_state.flatten(0, 1)[places]
        parts = -(-len(places) * vocabulary // LOGITS_AT_ONCE)
        if parts < 2:
            return {"losses": losses(learned, targets)}
        size = -(-len(places) // parts)
        # A product's last bits depend on its number of rows, so parts have equally many.
        missing = size * parts - len(places)
        pairs = zip(pad(learned, (0, 0, 0, missing)).split(size), pad(targets, (0, missing)).split(size), strict=True)
        if torch.is_grad_enabled():
            found = [checkpoint(losses, *pair, use_reentrant=False) for pair in pairs]
        else:
            found = [losses(*pair) for pair in pairs]
        return {"losses": torch.cat(found)[: len(places)]}

    with _calling(inner, forward):
        yield


@contextmanager
def _cut_off(inner: PreTrainedModel) -> Iterator[list[Any]]:
    """While inside, what follows the backbone of ``inner`` sees no tokens, and the backbone's output goes into the
    list; it stays empty if ``inner`` has no backbone."""
    answers: list[Any] = []

    def cut(_module: Any, _args: Any, answer: Any) -> Any:
        answers.append(answer)
        return _with_hidden(answer, answer.last_hidden_state[:1, :0])

    if inner.base_model is inner:
        yield answers
        return
    handle = inner.base_model.register_forward_hook(cut)
    try:
        yield answers
    finally:
        handle.remove()


def _with_hidden(answer: Any, hidden: torch.Tensor) -> Any:
    """A backbone's answer with these hidden states [rows, tokens, width]."""
    return type(answer)(**{**answer, "last_hidden_state": hidden})


@contextmanager
def _calling(module: torch.nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """While inside, ``module`` computes ``forward``; its hooks run as ever."""
    # Accelerate may have given the module a forward pass of its own.
    own = vars(module).get("forward")
    module.forward = forward
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:
            module.forward = own


def _losses(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return cross_entropy(logits.float(), targets, reduction="none")
