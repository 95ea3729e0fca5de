"""The interface of what provides model servers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ft_resources.serving.fleet import Endpoint


@dataclass(frozen=True, kw_only=True)
class Base:
    """A base model that should be served.

    Args:
        address: of its artifact.
        digest: its content digest.
        source: ``hub:ORG/NAME@COMMIT`` or ``folder:sha256:DIGEST``; empty where it is not known.
    """

    address: str
    digest: str
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class ConfiguredServer:
    """A server, and the base that it was started with.

    Args:
        base: as ``Base.source`` says it.
        fetches: as ``Endpoint.fetches``.
    """

    name: str
    url: str
    base: str
    key: str = field(repr=False)
    fetches: bool = False


@dataclass(frozen=True, kw_only=True)
class ServerState:
    """The state of a server, for people.

    Args:
        name: what it is called.
        base: content digest of its base; empty where nobody wants the base.
        endpoint: how it is asked; None where it does not answer.
        trouble: in words, why it does not; empty where it does, or starts.
    """

    name: str
    base: str
    endpoint: Endpoint | None = None
    trouble: str = ""


class Servers(Protocol):
    """Servers of one kind."""

    def provide(self, bases: Sequence[Base]) -> Sequence[ServerState]:
        """Serve these bases, as far as this kind can, in order of priority; return the state of all servers. Called
        every second or two, and returns quickly: slow work goes on in the background."""

    def close(self) -> None:
        """Stop the servers that were started."""
