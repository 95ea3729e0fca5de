"""Whether the records of parity checks are unaltered."""

from collections.abc import Iterator

from ft_assets.control.parity.records import checked_adapters, parity_logs
from ft_resources.errors import CorruptArtifact
from ft_resources.store import Store


def log_findings(store: Store, tenant: str, adapter: str) -> Iterator[str]:
    """Sentences about alterations in the checks of the adapter with the content digest ``adapter``."""
    for log in parity_logs(store, tenant, adapter):
        try:
            log.read()
        except CorruptArtifact as error:
            yield f"{error.where}: {error.what}"


def store_findings(store: Store) -> Iterator[str]:
    """The same for all adapters, also for those that were never in a line."""
    for tenant in store.tenants():
        for adapter in checked_adapters(store, tenant):
            yield from log_findings(store, tenant, adapter)
