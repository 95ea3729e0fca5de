"""Attention whose scores are changed before the softmax, which SDPA does not do: a softcap (Gemma 2), sinks (gpt-oss).

``attend`` computes it as Transformers' eager attention does, on any device. Its scores need memory quadratic in a
document's length, so a training computes them again in the backward pass: one layer's are in memory at a time.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from dataclasses import dataclass, replace

import torch
from torch.nn.functional import dropout as drop
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True, slots=True)
class Changes:
    """What an architecture does to its scores.

    Args:
        softcap: scores become ``softcap * tanh(score / softcap)``.
        sinks: float [query heads], the score of a token without value that every softmax has in addition.
    """

    softcap: float | None = None
    sinks: torch.Tensor | None = None

    def __bool__(self) -> bool:
        return self.softcap is not None or self.sinks is not None

    def of_heads(self, place: int, ranks: int) -> "Changes":
        """Those of the heads that rank ``place`` of ``ranks`` computes, see ``Slice.by_heads``."""
        return self if self.sinks is None else replace(self, sinks=self.sinks.chunk(ranks)[place])


@torch.compiler.disable
def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout: float,
    scale: float | None,
    changes: Changes,
    *,
    seen: torch.Tensor | None = None,
    window: int | None = None,
) -> torch.Tensor:
    """Attention of [rows, heads, tokens, size]; ``key`` and ``value`` may have fewer heads.

    Args:
        seen: bool, broadcast to [rows, heads, queries, keys], whether a query sees a key; None: those up to its own, of
            which it sees the last ``window``.
    """

    def result(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        shared = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1)
        scores = (query @ key.mT).float() * (query.shape[-1] ** -0.5 if scale is None else scale)
        if changes.softcap is not None:
            scores = (scores / changes.softcap).tanh() * changes.softcap
        shown = _causal(query, key, window) if seen is None else seen
        # Not the infinity: a padded row may see nothing.
        scores = scores.masked_fill(~shown, torch.finfo(torch.float32).min)
        if changes.sinks is not None:
            sinks = changes.sinks.float()[None, :, None, None].expand(*scores.shape[:-1], 1)
            scores = torch.cat([scores, sinks], dim=-1)
        shares = scores.softmax(-1)[..., : key.shape[2]].to(value.dtype)
        return drop(shares, dropout) @ value

    if not torch.is_grad_enabled():
        return result(query, key, value)
    found: torch.Tensor = checkpoint(result, query, key, value, use_reentrant=False, preserve_rng_state=dropout > 0)
    return found


def _causal(query: torch.Tensor, key: torch.Tensor, window: int | None) -> torch.Tensor:
    """bool [queries, keys]; the last query is at the last key."""
    keys = torch.arange(key.shape[2], device=key.device)
    queries = keys[-query.shape[2] :, None]
    seen = keys <= queries
    return seen if window is None else seen & (keys > queries - window)
