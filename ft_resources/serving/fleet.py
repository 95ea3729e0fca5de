"""Model servers, and which of them answers for an adapter."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A running server.

    Args:
        name: what it is called in messages.
        base: content digest of the base model that it serves.
        model: the base's name in requests to it.
        url: its address, without a path.
        key: the key that clients have to send.
        fetches: it fetches adapters from the store itself, by the names of ``ServedModel``.
    """

    name: str
    base: str
    model: str
    url: str
    key: str = field(repr=False)
    fetches: bool = False


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """An adapter as servers know it.

    Args:
        line: ``tenant.dataset-name.recipe-name``.
        address: of its artifact.
        digest: its content digest.
        base: content digest of its base model.
        base_address: of the base's artifact; empty where no server is to be started for it.
    """

    line: str
    address: str
    digest: str
    base: str
    base_address: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        """Its name in requests to a server: other bytes have another name."""
        return f"{self.line}@{self.digest[:16]}"


class Fleet(Protocol):
    """The existing servers. ``endpoints`` and ``serves`` return what is known, without waiting."""

    def endpoints(self, base: str) -> Sequence[Endpoint]:
        """Those that answer and have the base with this content digest; empty where none does."""

    def want(self, model: ServedModel) -> str:
        """No server has the base of ``model``: have one started, where this fleet can. Returns why none starts; empty
        where one does. It stays wanted while it is asked for."""

    def serves(self, model: ServedModel, endpoint: Endpoint) -> bool:
        """Whether ``endpoint`` serves ``model`` by its name, as far as is known: then ``load`` need not be called.
        Asking keeps it loaded for a while."""

    def forget(self, model: ServedModel, endpoint: Endpoint) -> None:
        """``endpoint`` did not know ``model``, perhaps as it was restarted: ``load`` loads it again."""

    def load(self, model: ServedModel, endpoint: Endpoint) -> None:
        """Return once ``endpoint`` serves ``model`` by its name; fast if it does already.

        Raises NotFound for an adapter that is not in the store, BadAdapter, ServerBusy and ServerUnavailable.
        """
