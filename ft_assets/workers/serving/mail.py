"""Events on their way from the engine's thread to the event loop.

The engine holds the interpreter's lock while it computes. Waking the loop makes the loop wait for that lock, and then
the engine for the loop. So the loop is woken once per step of the engine, and not for each row of its batch.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from ft_assets.workers.serving.requests import Event, ends


class Mail:
    """Delivers events, all sent by one thread, to queues of an event loop."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[asyncio.Queue[Event], Event]] = deque()
        self._is_woken = False

    def to(self, events: "asyncio.Queue[Event]", *, as_a_whole: bool) -> Callable[[Event], None]:
        """A function that sends events to the queue ``events`` of the running loop; ``as_a_whole``: all of them
        together with the last one."""
        loop, held = asyncio.get_running_loop(), list[Event]()

        def tell(event: Event) -> None:
            held.append(event)
            if as_a_whole and not ends(event):
                return
            self._waiting.extend((events, each) for each in held)
            held.clear()
            # One call is enough for all events until the loop runs it, which resets the flag first.
            if not self._is_woken and not loop.is_closed():
                self._is_woken = True
                loop.call_soon_threadsafe(self._bring)

        return tell

    def _bring(self) -> None:
        self._is_woken = False
        while self._waiting:
            events, event = self._waiting.popleft()
            events.put_nowait(event)
