"""The adapters that all lines want, read again after a decision or deletion."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ft_assets.control.lines.lines import PromotionRecord, list_lines, read_line
from ft_assets.control.serving.wanted import Wanted, banned_of, wanted_of
from ft_assets.records.tombstones import Subject, require_dataset_alive, require_not_deleted
from ft_assets.settings.keys import DatasetKey
from ft_resources.artifacts import Address
from ft_resources.errors import CorruptArtifact, Deleted, StoreUnavailable, UserError
from ft_resources.serving.fleet import ServedModel
from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What all lines want.

    Args:
        banned: adapters that must not be served any more.
        troubles: by line, why it could not be read; its earlier state is kept.
        trouble: why the store could not be read; the earlier state is kept.
    """

    wanted: tuple[Wanted, ...] = ()
    banned: tuple[ServedModel, ...] = ()
    troubles: dict[str, str] = field(default_factory=dict)
    trouble: str = ""


@dataclass(frozen=True, kw_only=True)
class _Line:
    wanted: tuple[Wanted, ...] = ()
    banned: tuple[ServedModel, ...] = ()
    trouble: str = ""


@dataclass(kw_only=True)
class _Tenant:
    mark: frozenset[object]
    lines: dict[str, _Line]


class Lines:
    """The lines of a store. A look lists each tenant's records, and reads the logs only if the list changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tenants: dict[str, _Tenant] = {}
        self._trouble = ""

    def read(self) -> Standing:
        """The adapters that all lines want now, or wanted last if the store is unavailable."""
        try:
            tenants = self._store.tenants()
            for tenant in tenants:
                self._read_tenant(tenant)
            self._tenants = {tenant: self._tenants[tenant] for tenant in tenants}
            self._trouble = ""
        except StoreUnavailable as error:
            self._trouble = error.what
        lines = {name: line for tenant in self._tenants.values() for name, line in tenant.lines.items()}
        return Standing(
            wanted=tuple(each for line in lines.values() for each in line.wanted),
            banned=tuple(each for line in lines.values() for each in line.banned),
            troubles={name: line.trouble for name, line in lines.items() if line.trouble},
            trouble=self._trouble,
        )

    def _read_tenant(self, tenant: str) -> None:
        mark = frozenset(
            (entry.path, entry.size, entry.modified)
            for folder in ("lines", "tombstones")
            for entry in self._store.entries(f"{tenant}/{folder}")
        )
        before = self._tenants.get(tenant)
        if before is not None and before.mark == mark:
            return
        known = before.lines if before is not None else {}
        lines = {name: self._read_line(name, known.get(name)) for name in list_lines(self._store, tenant)}
        self._tenants[tenant] = _Tenant(mark=mark, lines=lines)

    def _read_line(self, name: str, before: _Line | None) -> _Line:
        try:
            state = read_line(self._store, name)
            is_deleted = _asked_once(self._is_deleted)
            return _Line(wanted=tuple(wanted_of(state, is_deleted)), banned=tuple(banned_of(state, is_deleted)))
        except StoreUnavailable:
            raise
        except UserError as error:
            known = before or _Line()
            return _Line(wanted=known.wanted, banned=known.banned, trouble=f"{error.where}: {error.what}")

    def _is_deleted(self, record: PromotionRecord) -> bool:
        try:
            require_not_deleted(self._store, Subject.adapter(Address.parse(record.adapter.address)))
            require_dataset_alive(self._store, DatasetKey.parse(record.dataset))
        except (Deleted, CorruptArtifact):
            # A damaged tombstone restores nothing.
            return True
        return False


def _asked_once(ask: Callable[[PromotionRecord], bool]) -> Callable[[PromotionRecord], bool]:
    answers: dict[str, bool] = {}

    def answer(record: PromotionRecord) -> bool:
        address = record.adapter.address
        if address not in answers:
            answers[address] = ask(record)
        return answers[address]

    return answer
