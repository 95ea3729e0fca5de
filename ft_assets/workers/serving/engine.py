"""The engine: it takes requests from any thread, and computes them together on its own thread.

Between two tokens it loads and unloads adapters, drops ended and abandoned requests, and reads the prompts of new ones,
oldest first. A request without room for its adapter may be overtaken, for ``patience_s`` at most.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from ft_assets.workers.evals.generation import end_ids
from ft_assets.workers.evals.model import LoadedModel
from ft_assets.workers.packs.isolation.architectures import length_with_fixed_positions
from ft_assets.workers.serving.adapters import Adapter, Adapters
from ft_assets.workers.serving.batch import Row, require_batches
from ft_assets.workers.serving.requests import Failed, Request
from ft_assets.workers.serving.running import Figures, Running
from ft_resources.errors import UserError
from ft_resources.serving.errors import BadRequest, PromptTooLong, ServerBusy, ServerUnavailable

_LOG = logging.getLogger(__name__)


class Engine:
    """One base and its adapters.

    Args:
        loaded: the base, without an adapter.
        name: the base's name in requests.
        max_adapters: most adapters in memory.
        max_rows: most requests computed together.
        max_waiting: most requests in the queue; further ones are refused.
        prefill_tokens: most tokens of new prompts, padding included, read between two tokens of the others; a single
            prompt may be longer.
        patience_s: how long a request may be overtaken.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        name: str,
        max_adapters: int = 8,
        max_rows: int = 32,
        max_waiting: int = 256,
        prefill_tokens: int = 2048,
        patience_s: float = 2.0,
    ) -> None:
        require_batches(loaded.model)
        self.name, self.tokenizer = name, loaded.tokenizer
        config = loaded.model.config
        # Beyond this length some rotary embeddings change for a whole batch with its longest row.
        fixed = length_with_fixed_positions(config)
        self.context_length = min(loaded.context_length, fixed or loaded.context_length)
        self._vocabulary = int(config.get_text_config().vocab_size)
        self._limits = max_rows, max_waiting, prefill_tokens, patience_s
        self._adapters = Adapters(loaded.model, name, max_adapters)
        ends = frozenset(end_ids(loaded.model, loaded.tokenizer.eos_token_id))
        self._running = Running(self._adapters, loaded.model.device, ends)
        self._waiting: deque[tuple[float, Request, Adapter | None]] = deque()
        self._orders: deque[tuple[Callable[[], None], Future[None]]] = deque()
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    @property
    def healthy(self) -> bool:
        """Whether requests are still computed."""
        return self._thread.is_alive() and not self._ended

    def adapters(self) -> list[Adapter]:
        """The adapters that are served."""
        return self._adapters.names()

    def figures(self) -> Figures:
        """Requests in progress, and totals so far."""
        return self._running.figures(waiting=len(self._waiting))

    def load(self, name: str, folder: Path) -> Future[None]:
        """Serve the adapter in ``folder`` as ``name``; errors as in ``Adapters.add``."""
        return self._order(lambda: self._adapters.add(name, folder))

    def unload(self, name: str) -> Future[None]:
        """Stop serving ``name``; requests accepted before still get their answers."""
        return self._order(lambda: self._adapters.remove(name))

    def submit(self, request: Request) -> None:
        """Queue ``request``; its events are the answer. Raises NotFound, BadRequest, PromptTooLong, ServerBusy."""
        prompt, answer = request.prompt, request.sampling.max_tokens
        if not prompt or not all(0 <= token < self._vocabulary for token in prompt):
            what = f"a prompt is at least one token id from 0 to {self._vocabulary - 1}"
            raise BadRequest(what, where="prompt", remedy="Use the tokenizer of this base.")
        if len(prompt) + answer > self.context_length:
            raise PromptTooLong(len(prompt), answer, self.context_length)
        with self._changed:
            adapter = self._adapters.find(request.model)
            if self._ended:
                raise _ended()
            if len(self._waiting) >= self._limits[1]:
                raise ServerBusy(f"{len(self._waiting)} requests are waiting already", remedy="Try again.", retry_s=1)
            self._waiting.append((time.monotonic(), request, adapter))
            self._changed.notify_all()

    def close(self) -> None:
        """End the thread; requests in progress fail."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join()

    def _order(self, act: Callable[[], None]) -> Future[None]:
        done: Future[None] = Future()
        with self._changed:
            if self._ended:
                raise _ended()
            self._orders.append((act, done))
            self._changed.notify_all()
        return done

    def _run(self) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._ended or self._orders or self._waiting or self._running)
                    if self._ended:
                        return
                    orders, self._orders = self._orders, deque()
                for act, done in orders:
                    _carry_out(act, done)
                self._running.let_go()
                self._running.read(self._next())
                self._running.step()
        except Exception:
            _LOG.exception("The engine has ended.")
            raise
        finally:
            with self._changed:
                self._ended = True
            self._running.fail(_ended())
            for _, request, _ in self._waiting:
                request.tell(Failed(_ended()))
            for _, done in self._orders:
                done.set_exception(_ended())

    def _next(self) -> list[tuple[Row, Adapter | None]]:
        """Take from the queue the requests whose prompts are read next; each holds its adapter."""
        max_rows, _, most_tokens, patience_s = self._limits
        chosen: list[tuple[Row, Adapter | None]] = []
        longest = 0
        with self._changed:
            self._waiting = deque(entry for entry in self._waiting if not entry[1].cancelled)
        for entry in list(self._waiting):
            since, request, adapter = entry
            longest = max(longest, len(request.prompt))
            full = self._running.rows + len(chosen) >= max_rows
            if full or (chosen and longest * (len(chosen) + 1) > most_tokens):
                break
            try:
                inside = self._adapters.take(adapter) if adapter else None
            except UserError as error:
                request.tell(Failed(error))
            else:
                if adapter and inside is None:
                    if time.monotonic() - since > patience_s:
                        break
                    continue
                chosen.append((Row(request, inside), adapter))
            with self._changed:
                self._waiting.remove(entry)
        return chosen


def _carry_out(act: Callable[[], None], done: Future[Any]) -> None:
    if not done.set_running_or_notify_cancel():
        return
    try:
        act()
    except Exception as error:
        done.set_exception(error)
    else:
        done.set_result(None)


def _ended() -> ServerUnavailable:
    return ServerUnavailable("the engine has ended", remedy="Start it again; its log says why it ended.")
