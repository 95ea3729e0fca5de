"""Attention that keeps the documents of a packed window apart, for every architecture that Transformers can switch.

A batch is one row of tokens in which documents lie one behind the other::

    tokens          a0 a1 a2 b0 b1        position_ids   0 1 2 0 1
    document ends   cu_seq_lens_q 0 3 5   a never attends to b, nor b to a

``register()`` makes the implementation known as ``ATTENTION``; load a model with
``attn_implementation=ATTENTION`` and call it with ``position_ids``, ``cu_seq_lens_q`` (int32 [documents + 1], on
the CPU), ``attention_mask=None`` and ``use_cache=False``: with a cache Transformers does not look for documents.
Rows that are padded instead (generation, lm-eval) go through plain SDPA with their mask.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from ft_resources.errors import BadBase

ATTENTION = "ft_documents"
# What some architectures add to the scores; SDPA has no place for them, and leaving them out would train another model.
_EXTRAS = ("softcap", "s_aux", "position_bias")


class MissingBoundaries(Exception):
    """Packed rows reached the attention without their document boundaries; a bug, never a user's mistake."""


def register() -> None:
    """Make ``attn_implementation=ATTENTION`` mean what this module does. Calling it again changes nothing."""
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
    """The mask that Transformers hands to every layer: None for plain causal, else bool [batch, 1, queries, keys].

    For packed rows (no padding mask, and Transformers saw positions start again) it is an empty tensor, which
    ``document_attention`` only accepts together with boundaries, so forgetting them cannot leak. A dense mask of
    them would cost memory in the square of the row; it is still built where layers look at less than a whole row.
    """
    packed = attention_mask is None and not allow_is_causal_skip and not use_vmap
    if packed and (local_size is None or q_length <= local_size):
        return torch.empty(1, 1, 0, 0, dtype=torch.bool, device=kwargs.get("device", "cpu"))
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
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention inside each document.

    Args:
        query: [1, heads, tokens, width]; ``key`` and ``value`` may have fewer heads (grouped queries).
        attention_mask: what ``document_mask`` returned.
        cu_seq_lens_q: document offsets, int32 [documents + 1]; None for rows that are not packed.

    Returns:
        [1, tokens, heads, width] and None.

    Raises:
        MissingBoundaries: packed rows without ``cu_seq_lens_q``.
        BadBase: an architecture whose attention is more than softmax(query · key).
    """
    extras = [name for name in _EXTRAS if kwargs.get(name) is not None]
    if extras:
        raise BadBase(
            f"{type(module).__name__} uses {', '.join(extras)}, which our attention does not have",
            where="base_model",
            remedy="Choose a base without it, such as a Llama, Mistral or Qwen2 model.",
        )
    packed = attention_mask is not None and attention_mask.numel() == 0
    if packed and cu_seq_lens_q is None:
        raise MissingBoundaries("the rows are packed, but cu_seq_lens_q is missing: documents would see each other")
    if cu_seq_lens_q is None or (attention_mask is not None and not packed):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    lengths = cu_seq_lens_q.diff().tolist()
    if query.shape[0] != 1 or sum(lengths) != query.shape[2]:
        raise MissingBoundaries(f"boundaries for {sum(lengths)} tokens do not fit rows of {tuple(query.shape)}")
    # split, not slices: the backward of a slice fills a whole row with zeros, once for every document.
    documents = zip(query.split(lengths, 2), key.split(lengths, 2), value.split(lengths, 2), strict=True)
    grouped = key.shape[1] != query.shape[1]
    out = [
        scaled_dot_product_attention(q, k, v, dropout_p=dropout, scale=scaling, is_causal=True, enable_gqa=grouped)
        for q, k, v in documents
    ]
    return torch.cat(out, dim=2).transpose(1, 2).contiguous(), None
