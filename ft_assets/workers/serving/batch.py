"""Sequences that are computed together, one token of each per step, over one cache of keys and values.

All rows end in the same column, with padding before the shorter ones; it is masked, so each row computes the same as
alone::

    columns   0  1  2  3  4          mask   0 0 1 1 1
    row 0           b0 b1 b2                1 1 1 1 1
    row 1     c0 c1 c2 c3 c4

Between any two steps, ended rows leave, and rows whose prompts were read elsewhere join.
"""

# ruff: noqa: TID253 -- imported by the engine only, which needs torch anyway.

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from ft_assets.workers.serving.requests import Request
from ft_assets.workers.serving.sampling import generator, with_logprobs
from ft_resources.errors import BadBase
from ft_resources.serving.server import Token

# Calls the model, each row with its adapter (None: the base): keyword arguments to logits.
Forward = Callable[..., torch.Tensor]
# Columns of a prompt whose logits are held at a time, where all of them are asked for.
_SCORED_COLUMNS = 256


@dataclass(eq=False)
class Row:
    """A request in progress: ``adapter`` is the engine's own name for it, None for the base."""

    request: Request
    adapter: str | None
    written: int = 0
    last: int = -1
    draws: torch.Generator | None = field(init=False)

    def __post_init__(self) -> None:
        self.draws = generator(self.request.sampling)


class Batch:
    """Rows whose tokens so far, except the last written one, are in ``_cache``."""

    def __init__(self, rows: Sequence[Row], cache: DynamicCache, mask: torch.Tensor) -> None:
        self.rows = list(rows)
        self._cache: Any = cache
        self._mask = mask

    @classmethod
    def read(cls, rows: Sequence[Row], forward: Forward, device: torch.device) -> tuple["Batch", torch.Tensor]:
        """A batch of these rows' prompts, and the logits [rows, vocabulary] of their first tokens."""
        prompts = [row.request.prompt for row in rows]
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts], device=device)
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
        mask = (torch.arange(width, device=device) >= width - lengths[:, None]).long()
        # Without the config, layers with a sliding window keep all keys too; else rows could not join.
        cache = DynamicCache()
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        logits = forward(
            adapters=[row.adapter for row in rows],
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            last_only=True,
        )
        return cls(rows, cache, mask), logits[:, -1]

    @classmethod
    def score(
        cls, row: Row, top: int, forward: Forward, device: torch.device
    ) -> tuple["Batch", torch.Tensor, list[Token]]:
        """The same for one row, with each token of its prompt after the first and its log-probability.

        A part of the prompt is read at a time, since the logits of all of it may need more memory than the model.
        """
        prompt, cache = row.request.prompt, DynamicCache()
        mask = torch.ones(1, len(prompt), dtype=torch.long, device=device)
        scores: list[Token] = []
        for start in range(0, len(prompt), _SCORED_COLUMNS):
            end = min(start + _SCORED_COLUMNS, len(prompt))
            logits = forward(
                adapters=[row.adapter],
                input_ids=torch.tensor([prompt[start:end]], device=device),
                attention_mask=mask[:, :end],
                position_ids=torch.arange(start, end, device=device)[None],
                past_key_values=cache,
                last_only=False,
            )[0]
            following = prompt[start + 1 : end + 1]
            if following:
                scores += with_logprobs(logits[: len(following)], following, top)
        return cls([row], cache, mask), logits[-1:], scores

    def step(self, forward: Forward) -> torch.Tensor:
        """Read each row's last token: the logits [rows, vocabulary] of the next ones."""
        positions = self._mask.sum(1, keepdim=True)
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(self.rows), 1)], dim=1)
        logits = forward(
            adapters=[row.adapter for row in self.rows],
            input_ids=torch.tensor([[row.last] for row in self.rows], device=self._mask.device),
            attention_mask=self._mask,
            position_ids=positions,
            past_key_values=self._cache,
            last_only=True,
        )
        return logits[:, -1]

    def join(self, other: "Batch") -> None:
        """Take the rows of ``other``, which must not be used afterwards."""
        width = max(self._mask.shape[1], other._mask.shape[1])
        mine, theirs = self._padded(width), other._padded(width)
        for layer, more in zip(mine, theirs, strict=True):
            if layer.is_initialized:
                layer.keys = torch.cat([layer.keys, more.keys])
                layer.values = torch.cat([layer.values, more.values])
        self._mask = torch.cat([self._mask, other._mask])
        self.rows += other.rows

    def keep(self, wanted: Callable[[Row], bool]) -> None:
        """Drop the other rows, and the columns that only they needed."""
        kept = [place for place, row in enumerate(self.rows) if wanted(row)]
        if len(kept) == len(self.rows):
            return
        self.rows = [self.rows[place] for place in kept]
        if not kept:
            return
        indices = torch.tensor(kept, device=self._mask.device)
        mask = self._mask[indices]
        start = mask.shape[1] - int(mask.sum(1).max())
        self._mask = mask[:, start:]
        for layer in self._cache.layers:
            if layer.is_initialized:
                layer.keys, layer.values = layer.keys[indices, :, start:], layer.values[indices, :, start:]

    def apart(self) -> Iterable["Batch"]:
        """Batches of one adapter each. This one must not be used afterwards."""
        for adapter in dict.fromkeys(row.adapter for row in self.rows):
            part = Batch(self.rows, DynamicCache(), self._mask)
            for place, layer in enumerate(self._cache.layers):
                if layer.is_initialized:
                    part._cache.update(layer.keys, layer.values, place)
            part.keep(lambda row, adapter=adapter: row.adapter == adapter)  # type: ignore[misc]
            yield part

    def _padded(self, width: int) -> list[Any]:
        """The cache's layers, after padding was put before all rows up to ``width`` columns."""
        more = width - self._mask.shape[1]
        self._mask = torch.nn.functional.pad(self._mask, (more, 0))
        for layer in self._cache.layers:
            if layer.is_initialized and more:
                layer.keys = torch.nn.functional.pad(layer.keys, (0, 0, more, 0))
                layer.values = torch.nn.functional.pad(layer.values, (0, 0, more, 0))
        return list(self._cache.layers)


def require_batches(model: Any) -> None:
    """Raise BadBase for a model whose sequences cannot be batched like this: its layers hold more than keys and values,
    or it takes no positions."""
    layers = DynamicCache(config=model.config.get_text_config()).layers
    other = {type(layer).__name__ for layer in layers} - {DynamicLayer.__name__, DynamicSlidingWindowLayer.__name__}
    if not other and "position_ids" in inspect.signature(model.forward).parameters:
        return
    raise BadBase(
        f"the embedded server cannot batch sequences of {model.config.model_type}",
        where="base",
        remedy="Serve it with vLLM.",
    )
