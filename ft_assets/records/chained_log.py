"""Hash-chained logs: create-only records ``<folder>/<seq>.json``, numbered from 1, each with its predecessor's digest.

Creating a record is the decision, so exactly one of several concurrent writers wins. A record that was altered,
removed or inserted is an error, never another state.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import Field

from ft_resources.canonical import canonical_json, digest, sha256_bytes
from ft_resources.errors import CorruptArtifact
from ft_resources.records import RESTORE, Record
from ft_resources.store import Store


class ChainedRecord(Record):
    """One record of a log. ``path`` derives its place from its own fields."""

    seq: int = Field(ge=1, description="Place in the log, from 1.")
    previous: str = Field(description="sha256 of the record before this one, empty for the first.")

    @property
    def path(self) -> str:
        raise NotImplementedError


class SealedRecord(ChainedRecord):
    """A record with a seal. No successor names the last record's digest; the seal reveals that it was altered."""

    seal: str = Field(default="", description="Digest of all other fields.")

    @property
    def expected_seal(self) -> str:
        return digest(self.model_dump(mode="json", exclude={"seal"}))

    def data(self) -> bytes:
        """The stored bytes, sealed."""
        return canonical_json({**self.model_dump(mode="json"), "seal": self.expected_seal})


R = TypeVar("R", bound=ChainedRecord)


@dataclass(frozen=True, kw_only=True)
class ChainedLog(Generic[R]):
    """The log in ``folder``. Reading raises CorruptArtifact, which names the object, if the log was tampered with.

    Args:
        kind: what its records are.
        digits: number of digits in object names.
    """

    store: Store
    folder: str
    kind: type[R]
    digits: int = 6

    def path(self, seq: int) -> str:
        return f"{self.folder}/{seq:0{self.digits}d}.json"

    def length(self) -> int:
        """Number of records."""
        names = {entry.path.removeprefix(f"{self.folder}/") for entry in self.store.entries(self.folder)}
        numbers = {int(stem) for name in names if (stem := name.removesuffix(".json")).isdecimal()}
        foreign = names - {self.path(number).removeprefix(f"{self.folder}/") for number in numbers - {0}}
        if foreign:
            remedy = "Find out who put it there, and remove it."
            raise CorruptArtifact("this is no record of the log", where=f"{self.folder}/{min(foreign)}", remedy=remedy)
        length = max(numbers, default=0)
        for number in range(1, length + 1):
            # A listing that runs during writes may miss a record and still include its successor.
            if number not in numbers and not self.store.exists(self.path(number)):
                raise self._broken(number, "a record is missing before a later one of this log")
        return length

    def read(self) -> tuple[list[R], str]:
        """All records in order, and the sha256 of the last; empty for an empty log."""
        records: list[R] = []
        head = ""
        for seq in range(1, self.length() + 1):
            record = self.at(seq)
            if record.previous != head:
                raise self._broken(
                    seq, f"{self.kind.WHAT} does not follow the one before it, which was altered or exchanged"
                )
            records.append(record)
            head = sha256_bytes(record.data())
        return records, head

    def at(self, seq: int) -> R:
        """Record number ``seq``, which must exist."""
        data = self.store.get(self.path(seq))
        record = self.kind.parse(data, self.path(seq))
        if record.path != self.path(seq):
            raise self._broken(seq, f"{self.kind.WHAT} belongs to another place")
        if record.data() != data:
            raise self._broken(seq, f"{self.kind.WHAT} was altered: it does not match its seal")
        return record

    def append(self, record: R) -> R:
        """Write the record at its place; returns the record there afterwards: another one if another writer won."""
        return record if record.create(self.store, record.path) else self.at(record.seq)

    def _broken(self, seq: int, what: str) -> CorruptArtifact:
        return CorruptArtifact(what, where=self.path(seq), remedy=RESTORE)
