"""Makes servers of models follow the lines, beside the requests."""

import logging
import threading
from typing import TYPE_CHECKING

from ft_assets import api

if TYPE_CHECKING:
    from ft_assets.api import Reconciler

_LOG = logging.getLogger(__name__)
_EVERY_S = 1.0


class Following:
    """A thread that looks every second."""

    def __init__(self, reconciler: "Reconciler") -> None:
        self._reconciler = reconciler
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="follow-lines", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let a look under way end, and begin no other."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                api.keep_status(self._reconciler.look())
            except Exception:
                _LOG.exception("the lines are not followed; servers keep what they have")
            self._stop.wait(_EVERY_S)
