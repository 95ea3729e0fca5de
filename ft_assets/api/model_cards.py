"""An adapter's card: its base, its data, its evaluation and its stages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ft_assets.api.defaults import store_or_default
from ft_assets.control.lines.lines import LineState, Stage, read_line
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import StoreUnavailable, UserError
from ft_resources.remembered import Remembered
from ft_resources.store import Store

# Manifests never change.
_FOUND: Remembered[Artifact] = Remembered(100_000)
# An adapter in several is told by what matters most of them.
_FIRST: tuple[Stage, ...] = ("production", "staging", "dev", "archived", "deprecated")


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """An adapter.

    Args:
        uri: the folder of its files.
        base: source of its base, with the commit of one from the Hub; ``base_sha256`` is the content digest.
        dataset: key of the version that it learned from.
        metrics: as its evaluation measured them, of base and candidate.
        stage: where it stands in its line; "" for nowhere.
    """

    uri: str
    base: str
    base_sha256: str
    dataset: str
    metrics: Mapping[str, Any]
    stage: Stage | str


def cards_of_models(addresses: Sequence[str], *, store: Store | None = None) -> dict[str, ModelCard]:
    """Cards of the adapters at ``addresses``, by address; what is damaged or erased has no card. A line is read
    once. Raises StoreUnavailable."""
    store = store_or_default(store)
    artifacts, state_of = Artifacts(store), cache(lambda line: read_line(store, line))
    found = {}
    for address in dict.fromkeys(addresses):
        try:
            if card := _card(artifacts, address, state_of):
                found[address] = card
        except StoreUnavailable:
            raise
        except UserError:
            continue
    return found


def _card(artifacts: Artifacts, address: str, state_of: Callable[[str], LineState]) -> ModelCard | None:
    adapter = _find(artifacts, address)
    if adapter is None:
        return None
    ref = adapter.manifest.inputs["base"]
    base = _find(artifacts, ref.address)
    stages = state_of(adapter.facts["line"]).stages_of(address)
    return ModelCard(
        uri=artifacts.store.url_of(address),
        base=base_name(base) if base else ref.address,
        base_sha256=ref.digest,
        dataset=adapter.manifest.identity["params"]["dataset"],
        metrics=adapter.facts.get("metrics", {}),
        stage=next((stage for stage in _FIRST if stage in stages), ""),
    )


def base_name(base: Artifact) -> str:
    """The name of a base model: its source, with the commit of one from the Hub."""
    source = str(base.facts.get("source", base.address))
    # Every other source names its bytes.
    return f"{source}@{base.facts['revision']}" if source.startswith("hub:") else source


def _find(artifacts: Artifacts, address: str) -> Artifact | None:
    return _FOUND.get(artifacts.store, address, lambda: artifacts.find(Address.parse(address)))
