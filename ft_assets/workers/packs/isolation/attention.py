"""Attention that keeps the documents of a packed window apart, for every architecture that Transformers can switch.

A batch is one row of tokens in which documents lie one behind the other::

    tokens          a0 a1 a2 b0 b1        position_ids   0 1 2 0 1
    document ends   cu_seq_lens_q 0 3 5   a never attends to b, nor b to a

``register()`` makes the implementation known as ``ATTENTION``; load a model with
``attn_implementation=ATTENTION``, put ``guard`` on it, and call it with ``position_ids`` and ``cu_seq_lens_q`` (int32
[documents + 1], on the CPU). Rows that are padded instead (generation, lm-eval) go through plain SDPA with their mask.

On a GPU all documents go through one fused function where there is one for them (``varlen``), elsewhere each
document goes through PyTorch's SDPA by itself.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from functools import partial
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from ft_assets.packs.isolation.varlen import Rule, kernel_for
from ft_resources.errors import BadBase

ATTENTION = "ft_documents"
# What some architectures add to the scores; SDPA has no place for them, and leaving them out would train another model.
_EXTRAS = ("softcap", "s_aux", "position_bias")


class BrokenIsolation(Exception):
    """Packed rows reached the model in a way in which documents could see each other; a bug, never a user's mistake."""


class MissingBoundaries(BrokenIsolation):
    """Packed rows came without their document boundaries, or with those of other rows."""


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

    For packed rows (no padding mask, and Transformers saw positions start again) it is an empty tensor
    [1, 1, 0, local_size or 0], which ``document_attention`` only accepts together with boundaries, so forgetting them
    cannot leak; its last axis says how far layers with a sliding window look back. A dense mask would cost memory in
    the square of the row.
    """
    packed = attention_mask is None and not allow_is_causal_skip and not use_vmap
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
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention inside each document.

    Args:
        query: [1, heads, tokens, size]; ``key`` and ``value`` may have fewer heads (grouped queries).
        attention_mask: what ``document_mask`` returned.
        cu_seq_lens_q: document offsets, int32 [documents + 1], on the CPU; None for rows that are not packed.
        cu_seq_lens_k: the same offsets on the tensors' device, and
        max_length_q: the most tokens of a document; both are made here where ``guard`` did not make them once for
            all layers.

    Returns:
        [1, tokens, heads, size] and None.

    Raises:
        BrokenIsolation: packed rows without fitting ``cu_seq_lens_q``, or with keys of earlier calls.
        BadBase: an architecture whose attention is more than a causal softmax(query · key).
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
    masked = attention_mask is not None and not packed
    if masked and cu_seq_lens_q is not None and len(cu_seq_lens_q) > 2:
        raise BrokenIsolation("packed rows have a mask that says nothing of documents")
    if cu_seq_lens_q is None or masked:
        # A row of one document needs no isolation; where layers have a sliding window, Transformers masks it.
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    if key.shape[2] != query.shape[2]:
        raise BrokenIsolation(
            f"{query.shape[2]} packed tokens meet {key.shape[2]} keys: a cache joined other rows' keys"
        )
    if not kwargs.get("is_causal", getattr(module, "is_causal", True)):
        raise BadBase(
            f"{type(module).__name__} looks ahead, which a model that predicts the next token must not",
            where="base_model",
            remedy="Choose a causal language model.",
        )
    window = int(attention_mask.shape[-1]) or None if attention_mask is not None else None
    rule = Rule(dropout=dropout, scale=scaling, window=window)
    query, key, value = _as_computed(query, key, value)
    kernel = kernel_for(query, value, dropout)
    if kernel is None:
        lengths: list[int] = cu_seq_lens_q.diff().tolist()
        if query.shape[0] != 1 or sum(lengths) != query.shape[2]:
            raise MissingBoundaries(f"boundaries for {sum(lengths)} tokens do not fit rows of {tuple(query.shape)}")
        return _by_document(query, key, value, lengths, rule), None
    if query.shape[0] != 1:
        raise MissingBoundaries(f"packed rows are one row, not {query.shape[0]}")
    if cu_seq_lens_k is None or max_length_q is None:
        cu_seq_lens_k = cu_seq_lens_q.to(query.device)
        max_length_q = int(cu_seq_lens_q.diff().max())
    q, k, v = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
    return kernel.attend(q, k, v, cu_seq_lens_k, max_length_q, rule)[None], None


def _as_computed(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Under autocast SDPA computes in half precision whatever it is given; fused functions must be given it."""
    device = tensors[0].device.type
    if device == "cpu" or not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(tensor.to(dtype) for tensor in tensors)


def _by_document(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, lengths: list[int], rule: Rule
) -> torch.Tensor:
    """SDPA of each document: [1, heads, tokens, size] to [1, tokens, heads, size]."""
    grouped = key.shape[1] != query.shape[1]
    longest, window = max(lengths), rule.window
    # As Transformers decides for one document alone, so that its bits are the same.
    mask = _window_mask(longest, window, query.device) if window is not None and longest >= window else None
    sdpa = partial(scaled_dot_product_attention, dropout_p=rule.dropout, scale=rule.scale, enable_gqa=grouped)

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        length = q.shape[2]
        if mask is None or window is None or length < window:
            return sdpa(q, k, v, is_causal=True)
        return sdpa(q, k, v, attn_mask=mask[:length, :length])

    # split, not slices: the backward of a slice fills a whole row with zeros, once for every document.
    documents = zip(query.split(lengths, 2), key.split(lengths, 2), value.split(lengths, 2), strict=True)
    return torch.cat([attend(q, k, v) for q, k, v in documents], dim=2).transpose(1, 2).contiguous()


def _window_mask(length: int, window: int, device: torch.device) -> torch.Tensor:
    """Whether a query (row) sees a key: itself and the ``window`` - 1 before it. The same in every document."""
    places = torch.arange(length, device=device)
    back = places[:, None] - places[None]
    return (back >= 0) & (back < window)
