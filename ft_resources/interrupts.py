"""Ignores signals that would end this process while it stops others."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uninterrupted() -> Iterator[None]:
    """SIGINT and SIGTERM are ignored in the block.

    Interrupts often come twice: a second Ctrl-C, or a signal to the process and then to its group. Outside the main
    thread, which alone is interrupted, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
