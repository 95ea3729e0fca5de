"""A promotion signs its adapter and its own record, if a key is configured.

The record names line, stage, base, time and the record before it. So with ``FT_TRUSTED_KEYS``, whoever may write to the
bucket cannot put an adapter elsewhere that was signed once, or onto another base.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from ft_resources.artifacts import Address, Artifacts, InputRef
from ft_resources.errors import CorruptArtifact
from ft_resources.signatures import (
    SIGNING_KEY,
    Unsigned,
    is_decision_signed,
    require_signed,
    sign,
    sign_decision,
    signing_key,
    unsigned,
)
from ft_resources.store import Store


class Decided(Protocol):
    """A record of a line's log that puts an adapter somewhere."""

    @property
    def line(self) -> str: ...
    @property
    def path(self) -> str: ...
    def data(self) -> bytes: ...


def assure_signed(artifacts: Artifacts, adapter: InputRef) -> bool:
    """Sign exactly the bytes that were judged, if ``FT_SIGNING_KEY`` is set; returns whether the signature is new.

    Raises Unsigned if ``FT_TRUSTED_KEYS`` demands a signature that is still missing, CorruptArtifact if the bytes
    differ now, Misconfigured for unusable keys, and StoreUnavailable.
    """
    artifact = artifacts.get(Address.parse(adapter.address))
    if artifact.digest != adapter.digest:
        raise CorruptArtifact("its content differs from what was judged", where=adapter.address)
    key = signing_key()
    new = key is not None and sign(artifacts.store, artifact, key)
    require_signed(artifacts.store, artifact)
    return new


def assure_decision_signed(store: Store, record: Decided) -> None:
    """Sign a record before it gets into its log, so that no reader finds it unsigned. Raises Unsigned if
    ``FT_TRUSTED_KEYS`` demands a signature that this process cannot make; Misconfigured; StoreUnavailable."""
    sign_decisions(store, [record])
    if not is_decision_signed(store, _tenant(record), record.data()):
        raise Unsigned(
            "the decision needs the signature of a trusted key, and this process has none",
            where=record.path,
            remedy=f"Decide it where {SIGNING_KEY} is set: through the API server.",
        )


def sign_decisions(store: Store, records: Iterable[Decided]) -> bool:
    """Sign records if ``FT_SIGNING_KEY`` is set; returns whether a signature is new."""
    key = signing_key()
    if key is None:
        return False
    new = [sign_decision(store, _tenant(each), each.data(), key) for each in records]
    return any(new)


def require_decisions_signed(store: Store, decided: Iterable[tuple[Decided, InputRef]]) -> None:
    """Raise Unsigned for the first record that a trusted key had to sign and did not; each with its adapter."""
    for record, adapter in decided:
        if not is_decision_signed(store, _tenant(record), record.data()):
            raise unsigned(record.path, adapter.address)


def unsigned_decisions(store: Store, records: Iterable[Decided]) -> Iterator[str]:
    """Sentences that name the records of which that is so."""
    for record in records:
        if not is_decision_signed(store, _tenant(record), record.data()):
            error = unsigned(record.path, "")
            yield f"{error.where}: {error.what}"


def _tenant(record: Decided) -> str:
    return record.line.partition(".")[0]
