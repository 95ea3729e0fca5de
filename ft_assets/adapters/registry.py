"""The adapter in MLflow's registry, with everything that says where it came from as tags."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ft_assets.adapters.lineage import lineage
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.tracking import Log, Mirror, shared_mirror


def register_adapter(mirror: Mirror, artifacts: Artifacts, adapter: Artifact) -> None:
    """Note the adapter for the registry, once for each fingerprint; the model card is its description."""
    card = adapter.read("README.md").decode()
    mirror.register_adapter(adapter, tags=registration_tags(artifacts, adapter), card=card)


def register_new_adapter(uri: str, log: Log, artifacts: Artifacts, adapter: Artifact) -> None:
    """Register an adapter that was just made at MLflow's ``uri`` (empty: nowhere); trouble is one warning."""
    if not uri:
        return
    mirror = shared_mirror(uri)
    register_adapter(mirror, artifacts, adapter)
    if warning := mirror.flush():
        log.warning(warning)


def registration_tags(artifacts: Artifacts, adapter: Artifact) -> dict[str, str]:
    """Line, keys, metrics, and address and digest of everything the adapter was made of.

    Keys are ``ft.lineage.<asset>`` and ``ft.lineage.<asset>.digest``; a second artifact of one asset is ``<asset>.2``.
    """
    params = adapter.manifest.identity["params"]
    tags = {f"ft.{name}": str(params[name]) for name in ("line", "dataset", "recipe")}
    tags |= {f"ft.metric.{name}": f"{value:.6g}" for name, value in _numbers(adapter.facts["metrics"])}
    seen: set[str] = set()
    count: Counter[str] = Counter()
    for _, _, node in lineage(artifacts, adapter.address).walk():
        if node.address in seen:
            continue
        seen.add(node.address)
        asset = Address.parse(node.address).asset
        count[asset] += 1
        key = f"ft.lineage.{asset}" if count[asset] == 1 else f"ft.lineage.{asset}.{count[asset]}"
        tags |= {key: node.address, f"{key}.digest": node.digest}
    return tags


def _numbers(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """``{"a": {"b": 1.0}}`` as ``("a.b", 1.0)``."""
    for name, item in value.items():
        if isinstance(item, Mapping):
            yield from _numbers(item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", float(item)
