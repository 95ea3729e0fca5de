"""Outcomes of answers, copied requests, and conversations that may be kept, written beside the requests."""

import logging
import threading
import uuid
from datetime import UTC, datetime, timedelta

from ft_assets.api import SHADOW_CONVERSATIONS, ConversationLog, OutcomeLog, ShadowLog
from ft_resources.errors import StoreUnavailable
from ft_resources.store import Store

_LOG = logging.getLogger(__name__)
_EVERY_S = 5.0


class Outcomes:
    """What this server saw. A thread writes each minute once it is over, and the rest at the end; while the store is
    away, all is kept for later."""

    def __init__(self, store: Store, *, every_s: float = _EVERY_S) -> None:
        server = uuid.uuid4().hex[:12]
        self.log, self.conversations = OutcomeLog(store, server), ConversationLog(store, server)
        self.shadows = ShadowLog(store, server)
        self.shadow_conversations = ConversationLog(store, server, folder=SHADOW_CONVERSATIONS)
        self._every_s = every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outcomes", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write what is left, and end."""
        self._ended.set()
        self._thread.join()
        self._write(datetime.now(UTC) + timedelta(minutes=1))

    def _run(self) -> None:
        while not self._ended.wait(self._every_s):
            self._write(datetime.now(UTC))

    def _write(self, now: datetime) -> None:
        try:
            for log in (self.log, self.conversations, self.shadows, self.shadow_conversations):
                log.flush(now)
        except StoreUnavailable as error:
            _LOG.warning("outcomes and conversations are not written yet: %s", error)
