"""Events on their way from the engine's thread to the event loop.

The engine computes while it holds the interpreter's lock, for which a loop that is woken waits, and the engine then for
the loop. So the loop is woken once for all that a step of the engine says, and not for each row of its batch.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from ft_assets.workers.serving.requests import Event, ends


class Mail:
    """Brings events to queues of the loop that asks for them. Events are sent by one thread."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[asyncio.Queue[Event], Event]] = deque()
        self._is_woken = False

    def to(self, events: "asyncio.Queue[Event]", *, as_a_whole: bool) -> Callable[[Event], None]:
        """Who brings events to ``events``, of the running loop; ``as_a_whole`` all of them with the last one."""
        loop, held = asyncio.get_running_loop(), list[Event]()

        def tell(event: Event) -> None:
            held.append(event)
            if as_a_whole and not ends(event):
                return
            self._waiting.extend((events, each) for each in held)
            held.clear()
            # What came before the loop looks is found by it then; it takes this back before it looks.
            if not self._is_woken and not loop.is_closed():
                self._is_woken = True
                loop.call_soon_threadsafe(self._bring)

        return tell

    def _bring(self) -> None:
        self._is_woken = False
        while self._waiting:
            events, event = self._waiting.popleft()
            events.put_nowait(event)
