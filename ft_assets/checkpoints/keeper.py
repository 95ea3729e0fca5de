"""Keeps the weights of a run's best validations while it trains."""

import shutil
from typing import Any

from ft_assets.checkpoints.kept import drop_displaced, lowest, store_kept
from ft_assets.checkpoints.model import save_final
from ft_resources.worker_context import WorkContext


class Keeper:
    """``count`` weights of one run, which ends with step ``last``; ``origin`` names the base as in ``save_final``."""

    def __init__(self, context: WorkContext, count: int, *, last: int, full: bool, origin: dict[str, Any]) -> None:
        self._context, self._count, self._last, self._full, self._origin = context, count, last, full, origin

    def validated(self, model: Any, step: int, rows: list[dict[str, Any]]) -> None:
        """Keep the weights after ``step`` if its loss, the last in ``rows``, is among the lowest, and drop the one that
        is not any more. Training waits for it."""
        wanted = dict(lowest(rows, self._count, last=self._last))
        if step not in wanted:
            return
        folder = self._context.scratch / "keeping"
        shutil.rmtree(folder, ignore_errors=True)
        caching = model.config.use_cache
        save_final(model, folder, **self._origin, full=self._full)
        # Saving a whole model sets it as others want it; training goes on.
        model.config.use_cache = caching
        attempt = self._context.spec.attempt_path
        store_kept(self._context.store, attempt, folder, step, wanted[step])
        drop_displaced(self._context.store, attempt, list(wanted))
