"""The earlier trainings that a training continues; their ledgers say what they read."""

from collections.abc import Iterator

from ft_assets.records.erased import find_erased
from ft_resources.artifacts import Address, Artifacts, Manifest

WARM_START_INPUT = "warm_start"
"""Name of a checkpoint's input: the adapter that its training started from."""
CONTINUED_FROM = "continued_from"
"""Name of the fact with that adapter's address."""


def earlier_checkpoints(artifacts: Artifacts, checkpoint: Address) -> Iterator[str]:
    """Addresses of the trainings that ``checkpoint`` continues, the latest first, including erased ones; none if its
    weights were new."""
    manifest = _manifest(artifacts, checkpoint)
    while manifest is not None and (named := manifest.facts.get(CONTINUED_FROM)):
        adapter = _manifest(artifacts, Address.parse(named))
        if adapter is None:
            return
        address = adapter.inputs["checkpoint"].address
        yield address
        manifest = _manifest(artifacts, Address.parse(address))


def _manifest(artifacts: Artifacts, address: Address) -> Manifest | None:
    if found := artifacts.find(address):
        return found.manifest
    erased = find_erased(artifacts.store, address)
    return erased.manifest if erased else None
