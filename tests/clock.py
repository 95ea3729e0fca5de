"""A clock for what waits: it stands still until a test moves it."""


class Clock:
    """Seconds since whenever; pass it as ``clock``, and its ``sleep`` as ``sleep``."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass."""
        self.now += seconds

    sleep = advance
