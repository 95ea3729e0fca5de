"""The requests in progress, in batches that share a call of the model."""

# ruff: noqa: TID253 -- imported by the engine only, which needs torch anyway.

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ft_assets.workers.evals.model import NotFinite
from ft_assets.workers.serving.adapters import Adapter, Adapters
from ft_assets.workers.serving.batch import Batch, Row
from ft_assets.workers.serving.requests import Failed, Read, Written
from ft_assets.workers.serving.sampling import choose
from ft_resources.errors import first_line
from ft_resources.serving.errors import ServerUnavailable
from ft_resources.serving.server import Reason, Token

_LOG = logging.getLogger(__name__)
# Key of the one batch of all rows, while adapters can share a call; else each adapter has its own batch.
_MIXED = "mixed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """Requests now, and tokens since the start, named as in vLLM's metrics."""

    running: int
    waiting: int
    prompt_tokens: int
    generation_tokens: int


class Running:
    """Rows by batch. Each holds its adapter until it ends."""

    def __init__(self, adapters: Adapters, device: torch.device, ends: frozenset[int]) -> None:
        self._adapters, self._device, self._ends = adapters, device, ends
        self._batches: dict[str | None, Batch] = {}
        self._held: dict[Row, Adapter | None] = {}
        self._prompt_tokens = self._generation_tokens = 0

    @property
    def rows(self) -> int:
        """Number of requests."""
        return len(self._held)

    def __bool__(self) -> bool:
        return bool(self._held)

    def figures(self, *, waiting: int) -> Figures:
        """Requests in progress, and totals so far."""
        return Figures(
            running=self.rows,
            waiting=waiting,
            prompt_tokens=self._prompt_tokens,
            generation_tokens=self._generation_tokens,
        )

    def read(self, new: Sequence[tuple[Row, Adapter | None]]) -> None:
        """Read the prompts of ``new`` rows, generate their first tokens, and let them join the batches."""
        self._held |= dict(new)
        self._require_mixable()
        groups: dict[str | None, list[Row]] = {}
        for row, _ in new:
            groups.setdefault(self._key(row), []).append(row)
        for rows in groups.values():
            scored = [row for row in rows if row.request.prompt_logprobs is not None]
            for group in ([row for row in rows if row not in scored], *([row] for row in scored)):
                if group:
                    self._begin(group)

    def step(self) -> None:
        """One more token for each row."""
        for key, batch in list(self._batches.items()):
            try:
                self._write(batch, batch.step(self._adapters.model.forward))
            except Exception as error:
                self._fail(batch.rows, error)
                batch.rows = []
            if not batch.rows:
                del self._batches[key]

    def let_go(self) -> None:
        """Drop cancelled rows."""
        for row in [row for row in self._held if row.request.cancelled]:
            self._end(row)
        for key, batch in list(self._batches.items()):
            batch.keep(lambda row: row in self._held)
            if not batch.rows:
                del self._batches[key]

    def fail(self, error: Exception) -> None:
        """End all rows."""
        for row in list(self._held):
            self._end(row)
            row.request.tell(Failed(error))
        self._batches.clear()

    def _begin(self, rows: list[Row]) -> None:
        scores: tuple[Token, ...] = ()
        top = rows[0].request.prompt_logprobs
        try:
            if top is None:
                batch, logits = Batch.read(rows, self._adapters.model.forward, self._device)
            else:
                batch, logits, found = Batch.score(rows[0], top, self._adapters.model.forward, self._device)
                scores = (Token(id=rows[0].request.prompt[0]), *found)
            for row in rows:
                self._prompt_tokens += len(row.request.prompt)
                row.request.tell(Read(scores))
            self._write(batch, logits)
        except Exception as error:
            self._fail(rows, error)
            return
        if batch.rows:
            self._add(self._key(rows[0]), batch)

    def _add(self, key: str | None, batch: Batch) -> None:
        if key in self._batches:
            self._batches[key].join(batch)
        else:
            self._batches[key] = batch

    def _write(self, batch: Batch, logits: torch.Tensor) -> None:
        """Choose each row's next token; rows that end leave."""
        finite = logits.isfinite().all(-1).tolist()
        # Logits that are not finite are replaced, so that only their row fails; it gets no token.
        tokens = choose(
            logits.where(logits.isfinite().all(-1, keepdim=True), 0.0),
            [(row.request.sampling, row.draws) for row in batch.rows],
        )
        for row, token, is_finite in zip(list(batch.rows), tokens, finite, strict=True):
            if not is_finite:
                self._fail([row], NotFinite("the model's logits are not all finite numbers"))
                continue
            row.last, row.written = token.id, row.written + 1
            self._generation_tokens += 1
            sampling = row.request.sampling
            reason: Reason | None = None
            if token.id in self._ends or token.id in sampling.stop_token_ids:
                reason = "stop"
            elif row.written == sampling.max_tokens:
                reason = "length"
            if reason is not None:
                self._end(row)
            row.request.tell(Written(token, reason))
        batch.keep(lambda row: row in self._held)

    def _require_mixable(self) -> None:
        """Split the mixed batch if an adapter was added that cannot share a call."""
        if not self._adapters.model.mixes and _MIXED in self._batches:
            for part in self._batches.pop(_MIXED).apart():
                self._add(part.rows[0].adapter, part)

    def _key(self, row: Row) -> str | None:
        return _MIXED if self._adapters.model.mixes else row.adapter

    def _fail(self, rows: Sequence[Row], error: Exception) -> None:
        _LOG.error("Requests failed.", exc_info=error)
        told = error if isinstance(error, NotFinite) else ServerUnavailable(first_line(error), where="engine")
        for row in rows:
            if row in self._held:
                self._end(row)
                row.request.tell(Failed(told))

    def _end(self, row: Row) -> None:
        adapter = self._held.pop(row)
        if adapter is not None:
            self._adapters.give_back(adapter)
