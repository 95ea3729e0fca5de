"""A result to talk to, whose answers a server writes."""

from collections.abc import Callable, Sequence
from typing import Any

from ft_assets.remote.connection import Connection
from ft_resources.errors import UserError

_PATH = "/v1/ft/answers"


class RemoteTalk:
    """The remote counterpart of ``api.open_talk``, for the result at an address."""

    def __init__(self, connection: Connection, address: str) -> None:
        self._connection, self._address = connection, address

    def answer(
        self,
        messages: Sequence[dict[str, Any]],
        tell: Callable[[str, str], None],
        *,
        tools: Sequence[dict[str, Any]] = (),
        of_base: bool = False,
        most: int = 512,
    ) -> str:
        """Tell the answer as it comes, and why it ended. Raises UserError."""
        body = {"address": self._address, "messages": list(messages), "tools": list(tools)}
        for part in self._connection.events(_PATH, {**body, "of_base": of_base, "max_tokens": most}):
            if "error" in part:
                raise UserError(str(part["error"]["message"]), where=self._connection.server, remedy="Try again.")
            if part["thoughts"] or part["text"]:
                tell(part["thoughts"], part["text"])
            if part["finish_reason"]:
                return str(part["finish_reason"])
        raise UserError("the answer broke off", where=self._connection.server, remedy="Try again.")
