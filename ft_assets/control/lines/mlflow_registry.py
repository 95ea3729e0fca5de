"""Adapters in MLflow's registry: their origin as tags, and the state of their line."""

from collections import Counter

from ft_assets.control.lines.lines import POINTERS, LineState, read_line
from ft_assets.records.tombstones import require_alive
from ft_assets.settings.ungated import UNGATED
from ft_assets.workers.adapters.lineage import lineage
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.dotted import leaves
from ft_resources.errors import UserError
from ft_resources.mlflow_server import Standing
from ft_resources.tracking import Log, Mirror, default_uri, shared_mirror


def register_adapter(mirror: Mirror, artifacts: Artifacts, adapter: Artifact) -> None:
    """Queue the adapter for the registry, once per fingerprint; the model card is its description."""
    card = adapter.read("README.md").decode()
    mirror.register_adapter(adapter, tags=registration_tags(artifacts, adapter), card=card)


def register_new_adapter(uri: str, log: Log, artifacts: Artifacts, adapter: Artifact) -> None:
    """Register a new adapter, or mark an ungated result, with the MLflow at ``uri`` (no-op if empty); a failure is only
    a warning."""
    if not uri:
        return
    mirror = shared_mirror(uri)
    if adapter.address.asset == UNGATED:
        note_ungated(mirror, adapter)
    else:
        register_adapter(mirror, artifacts, adapter)
    if warning := mirror.flush():
        log.warning(warning)


def note_ungated(mirror: Mirror, result: Artifact) -> None:
    """Mark the training's run. MLflow's registry holds accepted adapters only: its newest version may be served."""
    mirror.tag(result.manifest.inputs["checkpoint"].address, {"ft.verdict": UNGATED, "ft.ungated": str(result.address)})


def mirror_line(artifacts: Artifacts, line: str, *, uri: str | None = None, log: Log) -> None:
    """Update a line's aliases and tags in MLflow to its log; a failure is only a warning.

    Args:
        uri: MLflow's; None for the configured one, empty for none.
    """
    uri = default_uri() if uri is None else uri
    if not uri:
        return
    mirror = shared_mirror(uri)
    try:
        note_line(mirror, artifacts, line)
    except UserError as error:
        log.warning(f"MLflow was not updated for {line}: {error.what}; run ft rebuild later")
        return
    if warning := mirror.flush():
        log.warning(warning)


def note_line(mirror: Mirror, artifacts: Artifacts, line: str) -> None:
    """Queue a line's state for the registry, and every existing adapter in its log."""
    for address in dict.fromkeys(record.adapter.address for record in read_line(artifacts.store, line).records):
        try:
            adapter = artifacts.find(Address.parse(address))
            if adapter is not None:
                require_alive(artifacts.store, adapter)
                register_adapter(mirror, artifacts, adapter)
        except UserError:
            # Deleted or damaged: the line is mirrored without it, and ft verify reports the problem.
            continue
    mirror.line_stands(line, lambda: standing_of(read_line(artifacts.store, line)))


def standing_of(state: LineState) -> Standing:
    """A line's state for MLflow: aliases by stage, and tags by fingerprint."""
    aliases: dict[str, str] = {}
    for stage in POINTERS:
        found = state.at(stage)
        aliases[stage] = _fingerprint(found.adapter.address) if found else ""
    tags = {}
    for record in state.records:
        # Of several records about an adapter, the last explains its present stage.
        tags[_fingerprint(record.adapter.address)] = {
            "ft.stage": ", ".join(state.stages_of(record.adapter.address)) or "superseded",
            "ft.promotion": record.path,
            "ft.actor": record.actor,
            "ft.reason": record.reason,
            "ft.recipe_hash": record.recipe_hash,
        }
    return Standing(seq=len(state.records), aliases=aliases, tags=tags)


def _fingerprint(address: str) -> str:
    return Address.parse(address).fingerprint


def registration_tags(artifacts: Artifacts, adapter: Artifact) -> dict[str, str]:
    """Line, keys, metrics, and the address and digest of everything the adapter was made from.

    Keys are ``ft.lineage.<asset>`` and ``ft.lineage.<asset>.digest``; a second artifact of one asset is ``<asset>.2``.
    """
    params = adapter.manifest.identity["params"]
    tags = {f"ft.{name}": str(params[name]) for name in ("line", "dataset", "recipe")}
    tags |= {"ft.tenant": adapter.address.tenant, "ft.accepted_by": adapter.manifest.actor}
    tags |= {f"ft.metric.{name}": f"{float(value):.6g}" for name, value in leaves(adapter.facts["metrics"])}
    seen: set[str] = set()
    count: Counter[str] = Counter()
    # Nearest first: if an adapter's base is another adapter, both have a checkpoint, a dataset and so on.
    for _, _, node in sorted(lineage(artifacts, adapter.address).walk(), key=lambda found: found[0]):
        if node.address in seen:
            continue
        seen.add(node.address)
        asset = Address.parse(node.address).asset
        count[asset] += 1
        key = f"ft.lineage.{asset}" if count[asset] == 1 else f"ft.lineage.{asset}.{count[asset]}"
        tags |= {key: node.address, f"{key}.digest": node.digest}
    return tags
