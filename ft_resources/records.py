"""Records: small JSON objects about decisions and events, written once and read strictly."""

from typing import ClassVar, Self

from pydantic import ValidationError

from ft_resources.canonical import canonical_json
from ft_resources.errors import CorruptArtifact
from ft_resources.store import Store
from ft_resources.strict_model import StrictModel

RESTORE = "Restore the object from the bucket's versions or a backup."


class Record(StrictModel):
    """One object of the store. Stored as canonical JSON, so that equal records have equal bytes.

    ``WHAT`` is its name in errors.
    """

    WHAT: ClassVar[str] = "the record"

    def data(self) -> bytes:
        """The stored bytes."""
        return canonical_json(self.model_dump(mode="json"))

    def create(self, store: Store, path: str) -> bool:
        """Write the record unless one exists: True for the one caller that wrote it. Raises StoreUnavailable."""
        return store.create(path, self.data())

    def create_or_get(self, store: Store, path: str) -> Self:
        """Write the record unless one exists; returns the one at ``path`` afterwards.

        Raises CorruptArtifact if another one exists and cannot be read, StoreUnavailable.
        """
        return self if self.create(store, path) else self.get(store, path)

    @classmethod
    def get(cls, store: Store, path: str, remedy: str = RESTORE) -> Self:
        """The record at ``path``. Raises FileNotFoundError, CorruptArtifact and StoreUnavailable."""
        return cls.parse(store.get(path), path, remedy)

    @classmethod
    def find(cls, store: Store, path: str, remedy: str = RESTORE) -> Self | None:
        """The record at ``path``, None if there is none. Raises CorruptArtifact and StoreUnavailable."""
        try:
            return cls.get(store, path, remedy)
        except FileNotFoundError:
            return None

    @classmethod
    def parse(cls, data: bytes, path: str, remedy: str = RESTORE) -> Self:
        """The record in ``data``, read from ``path``. Raises CorruptArtifact if it does not match the model."""
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            problem = f"{cls.WHAT} cannot be read ({error.error_count()} problems)"
            raise CorruptArtifact(problem, where=path, remedy=remedy) from error
