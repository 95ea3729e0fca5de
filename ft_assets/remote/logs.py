"""Logs at a server, read piece by piece as those of a store."""

from dataclasses import dataclass
from typing import Any

from ft_assets.api import Logs
from ft_resources.artifacts import Address


@dataclass(frozen=True)
class RemoteAttempt:
    """An attempt of ``target`` with its log."""

    remote: Any
    target: str
    path: str
    address: Address
    number: int

    def chunks(self, kind: str, after: int) -> list[tuple[int, bytes]]:
        """Numbered pieces of the log after ``after``; ``kind`` is ``log``."""
        assert kind == "log"
        found: list[tuple[int, bytes]] = []
        while more := self.remote.log_chunks(self.target, self.path, after=after):
            found += more
            after = more[-1][0]
        return found


def remote_logs(remote: Any, target: str) -> Logs:
    """The logs of ``target`` at the other end. Raises UserError where there is no such thing."""
    state = remote.log_state(target)

    def attempts() -> list[Any]:
        found = state.attempts if state.ended else remote.log_state(target).attempts
        return [RemoteAttempt(remote, target, each.path, each.address, each.number) for each in found]

    def ended() -> bool:
        nonlocal state
        state = remote.log_state(target)
        return bool(state.ended)

    return Logs(attempts=attempts, ended=ended, status=lambda: state.status)
