"""Attention that isolates the documents of a packed window, for every architecture whose attention is switchable in
Transformers.

A batch is one row of concatenated documents::

    tokens          a0 a1 a2 b0 b1        position_ids   0 1 2 0 1
    document ends   cu_seq_lens_q 0 3 5   a never attends to b, nor b to a

``register()`` registers the implementation as ``ATTENTION``; load a model with ``attn_implementation=ATTENTION``, put
``guard`` on it, and call it with ``position_ids`` and ``cu_seq_lens_q`` (int32 [documents + 1], on the CPU). Padded
rows (generation, lm-eval) use plain SDPA with their mask.

On a GPU a fused function handles all documents if it supports them (``varlen``, ``fused_scores``); otherwise each
document goes through PyTorch's SDPA separately, or through ``scores`` where the architecture changes its scores.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from contextvars import ContextVar
from functools import partial
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from ft_assets.workers.packs.isolation.architectures import REMEDY
from ft_assets.workers.packs.isolation.context import Slice
from ft_assets.workers.packs.isolation.fused_scores import attend_fused, can_fuse
from ft_assets.workers.packs.isolation.scores import Changes
from ft_assets.workers.packs.isolation.scores import attend as attend_scores
from ft_assets.workers.packs.isolation.varlen import applies, attend
from ft_resources.errors import BadBase

ATTENTION = "ft_documents"
ROWS_ARE_PACKED: ContextVar[bool] = ContextVar("rows_are_packed", default=False)
"""Whether the rows of the current call hold several documents. Some models do not pass the positions, which would show
it, to the function that makes their masks."""


class BrokenIsolation(Exception):
    """Packed rows reached the model in a form in which documents could see each other: a bug, never a user's error."""


class LooksAhead(BadBase):
    """A model computes a token from later ones too: it would learn to copy the answers that it sees."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} looks ahead, which a model that predicts the next token must not do",
            where="base_model",
            remedy="Choose a causal language model.",
        )


class MissingBoundaries(BrokenIsolation):
    """Packed rows came without their document boundaries, or with those of other rows."""


def register() -> None:
    """Register this module as ``attn_implementation=ATTENTION``. Calling it again changes nothing."""
    AttentionInterface.register(ATTENTION, document_attention)
    AttentionMaskInterface.register(ATTENTION, document_mask)


def document_mask(
    *,
    q_length: int,
    attention_mask: torch.Tensor | None = None,
    allow_is_causal_skip: bool = True,
    use_vmap: bool = False,
    local_size: int | None = None,
    **kwargs: Any,
) -> torch.Tensor | None:
    """The mask that Transformers passes to every layer: None for plain causal, else bool [batch, 1, queries, keys].

    For packed rows (no padding mask, and Transformers saw positions restart, or ``ROWS_ARE_PACKED``) it is an empty
    tensor [1, 1, 0, local_size or 0]. ``document_attention`` accepts it only together with boundaries, so forgetting
    them cannot leak; its last axis is the window of layers with a sliding window. A dense mask would need memory
    quadratic in the row's length.
    """
    several = not allow_is_causal_skip or ROWS_ARE_PACKED.get()
    packed = attention_mask is None and several and not use_vmap
    if packed:
        return torch.empty(1, 1, 0, local_size or 0, dtype=torch.bool, device=kwargs.get("device", "cpu"))
    return sdpa_mask(
        q_length=q_length,
        attention_mask=attention_mask,
        allow_is_causal_skip=allow_is_causal_skip,
        use_vmap=use_vmap,
        local_size=local_size,
        **kwargs,
    )


def document_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    cu_seq_lens_k: torch.Tensor | None = None,
    max_length_q: int | None = None,
    row_slice: Slice | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    position_bias: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention inside each document.

    Args:
        query: [1, heads, tokens, size]; ``key`` and ``value`` may have fewer heads (grouped queries).
        attention_mask: what ``document_mask`` returned.
        cu_seq_lens_q: document offsets, int32 [documents + 1], on the CPU; None for rows that are not packed.
        cu_seq_lens_k: the same offsets on the tensors' device, and
        max_length_q: the most tokens of a document; both are computed here unless ``guard`` computed them once for all
            layers.
        row_slice: the tensors are a slice of a row that several ranks share, and the boundaries are the whole row's.
        softcap, s_aux: see ``Changes``, whose sinks Transformers calls ``s_aux``.

    Returns:
        [1, tokens, heads, size] and None.

    Raises:
        BrokenIsolation: packed rows without fitting ``cu_seq_lens_q``, or with keys of earlier calls.
        BadBase: the architecture's attention is more than a softmax(query · key).
        LooksAhead: it is not causal.
        BadRecipe: the ranks that share a row cannot divide the heads.
    """
    if position_bias is not None:
        raise BadBase(
            f"{type(module).__name__} adds a bias to its scores, which our attention does not support",
            where="base_model",
            remedy=REMEDY,
        )
    changes = Changes(softcap, s_aux)
    packed = attention_mask is not None and attention_mask.numel() == 0
    if packed and cu_seq_lens_q is None:
        raise MissingBoundaries("the rows are packed, but cu_seq_lens_q is missing: documents would see each other")
    masked = attention_mask is not None and not packed
    if masked and cu_seq_lens_q is not None and (len(cu_seq_lens_q) > 2 or row_slice is not None):
        raise BrokenIsolation("packed rows have a mask that knows nothing of their documents")
    if cu_seq_lens_q is None or masked:
        # A row of one document needs no isolation; Transformers masks it for layers with a sliding window.
        if changes:
            found = attend_scores(query, key, value, dropout, scaling, changes, seen=attention_mask)
            return found.transpose(1, 2).contiguous(), None
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    if key.shape[2] != query.shape[2]:
        raise BrokenIsolation(
            f"{query.shape[2]} packed tokens meet {key.shape[2]} keys: a cache joined other rows' keys"
        )
    if not kwargs.get("is_causal", getattr(module, "is_causal", True)):
        raise LooksAhead(type(module).__name__)
    window = int(attention_mask.shape[-1]) or None if attention_mask is not None else None
    query, key, value = _as_computed(query, key, value)
    if row_slice is not None:
        query, key, value = row_slice.by_heads(query, key, value)
        changes = changes.of_heads(row_slice.group.place, row_slice.group.size)
    places = (cu_seq_lens_q, cu_seq_lens_k, max_length_q)
    result = _isolated(query, key, value, places, dropout, scaling, window, changes)
    return (result if row_slice is None else row_slice.by_tokens(result)), None


def _isolated(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    places: tuple[torch.Tensor, torch.Tensor | None, int | None],
    dropout: float,
    scaling: float | None,
    window: int | None,
    changes: Changes,
) -> torch.Tensor:
    """The attention of whole rows; ``places`` are ``cu_seq_lens_q``, ``cu_seq_lens_k`` and ``max_length_q``."""
    cu_seq_lens_q, cu_seq_lens_k, max_length_q = places
    if not (can_fuse(query, key, value, dropout, changes) if changes else applies(query, value, dropout)):
        return _by_document(query, key, value, cu_seq_lens_q, dropout, scaling, window, changes)
    if query.shape[0] != 1:
        raise MissingBoundaries(f"packed rows are one row, not {query.shape[0]}")
    if cu_seq_lens_k is None or max_length_q is None:
        cu_seq_lens_k = cu_seq_lens_q.to(query.device)
        max_length_q = int(cu_seq_lens_q.diff().max())
    q, k, v = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
    result: torch.Tensor = (
        attend_fused(q, k, v, cu_seq_lens_k, max_length_q, scaling, window, changes)
        if changes
        else attend(q, k, v, cu_seq_lens_k, max_length_q, dropout, scaling, window)
    )
    return result[None]


def _as_computed(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Under autocast SDPA computes in half precision whatever its inputs; fused functions need inputs in it."""
    device = tensors[0].device.type
    if device == "cpu" or not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(tensor.to(dtype) for tensor in tensors)


@torch.compiler.disable
def _by_document(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    boundaries: torch.Tensor,
    dropout: float,
    scale: float | None,
    window: int | None,
    changes: Changes,
) -> torch.Tensor:
    """SDPA, or ``scores``, per document: [1, heads, tokens, size] to [1, tokens, heads, size]."""
    lengths: list[int] = boundaries.diff().tolist()
    if query.shape[0] != 1 or sum(lengths) != query.shape[2]:
        raise MissingBoundaries(f"boundaries for {sum(lengths)} tokens do not fit rows of {tuple(query.shape)}")
    grouped = key.shape[1] != query.shape[1]
    longest = max(lengths)
    # Same choice as Transformers makes for one document alone, so that the results are bitwise equal.
    mask = _window_mask(longest, window, query.device) if window is not None and longest >= window else None
    sdpa = partial(scaled_dot_product_attention, dropout_p=dropout, scale=scale, enable_gqa=grouped)

    def alone(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        length = q.shape[2]
        if changes:
            return attend_scores(q, k, v, dropout, scale, changes, window=window)
        if mask is None or window is None or length < window:
            return sdpa(q, k, v, is_causal=True)
        return sdpa(q, k, v, attn_mask=mask[:length, :length])

    # split, not slices: the backward of a slice fills a whole row with zeros, once for every document.
    documents = zip(query.split(lengths, 2), key.split(lengths, 2), value.split(lengths, 2), strict=True)
    return torch.cat([alone(q, k, v) for q, k, v in documents], dim=2).transpose(1, 2).contiguous()


def _window_mask(length: int, window: int, device: torch.device) -> torch.Tensor:
    """Whether a query (row) sees a key: itself and the ``window`` - 1 keys before it. The same in every document."""
    places = torch.arange(length, device=device)
    back = places[:, None] - places[None]
    return (back >= 0) & (back < window)
