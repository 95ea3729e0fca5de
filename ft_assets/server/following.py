"""Makes servers of models follow the lines, beside the requests."""

import logging
import threading
from typing import TYPE_CHECKING

from ft_assets import api
from ft_resources.errors import UserError

if TYPE_CHECKING:
    from ft_assets.api import DriftWatch, Reconciler, ServingStatus

_LOG = logging.getLogger(__name__)
_EVERY_S = 1.0


class Following:
    """A thread that looks every second."""

    def __init__(self, reconciler: "Reconciler", drift: "DriftWatch") -> None:
        self._reconciler, self._drift = reconciler, drift
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
            self.look()
            self._stop.wait(_EVERY_S)

    def look(self) -> None:
        """Bring the servers to what the lines say now."""
        try:
            status = self._reconciler.look()
            api.keep_status(status)
            self._watch(status)
        except Exception:
            _LOG.exception("the lines are not followed; servers keep what they have")

    def _watch(self, status: "ServingStatus") -> None:
        try:
            self._drift.look(status)
        except UserError as error:
            _LOG.warning("drift is not reported: %s", error)
