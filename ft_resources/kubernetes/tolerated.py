"""Whether a Job of these settings can be admitted to a flavour at all. Pure.

Kueue never gives one whose taint a pod does not tolerate. One with a topology it gives only to Jobs that ask for a
level of that topology, and to those it gives no other.
"""

from collections.abc import Iterator, Sequence
from itertools import product

from ft_resources.errors import UserError
from ft_resources.kubernetes.flavours import Flavour, FlavoursFile, Taint
from ft_resources.kubernetes.places import GpuType, Near, Place, Toleration
from ft_resources.kubernetes.settings import KubernetesSettings

KEEPS_OUT = ("NoSchedule", "NoExecute")


def require_possible(settings: KubernetesSettings, file: FlavoursFile) -> None:
    """Raise UserError for the first flavour that no Job of these settings could have: its nodes would stay idle, and
    work that needs them would wait for ever."""
    for flavour in file.flavours:
        kinds = list(_ways(settings, flavour))
        _require_topology(flavour, [near for _, near in kinds], file.topologies.get(flavour.topology or "", ()))
        taints = [taint for taint in flavour.taints if taint.effect in KEEPS_OUT]
        ways = [tolerations for tolerations, _ in kinds]
        if not any(all(tolerates(way, taint) for taint in taints) for way in ways):
            known = {taint.key for taint in taints if any(tolerates(way, taint) for way in ways)}
            key = next((taint.key for taint in taints if taint.key not in known), taints[0].key if taints else "")
            raise UserError(
                f"no Job could run on the flavour {flavour.name}: "
                + (f"none tolerates its taint {key}" if taints else "its labels contradict the settings'"),
                where=f"flavour {flavour.name}",
                remedy="Name the same labels and taints in the cluster's settings: `gpu_types` for those of GPU nodes, "
                "`on_demand` and `spot_nodes` for those of all nodes of a kind.",
            )


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Whether one of ``tolerations`` covers ``taint``."""
    return any(
        (each.key, each.effect) == (taint.key, taint.effect) and each.value in (None, taint.value or "")
        for each in tolerations
    )


def _require_topology(flavour: Flavour, kinds: Sequence[Near | None], levels: Sequence[str]) -> None:
    asked = [near.level if near else None for near in kinds]
    if not kinds or any(level in levels if flavour.topology else level is None for level in asked):
        return
    if flavour.topology:
        what = f"none asks for a level of its topology {flavour.topology}"
        remedy = (
            f"Name one of {', '.join(levels)} as `topology: {{level: …}}` of its GPU type in the cluster's settings. "
            "Nodes without GPUs have no topology."
        )
    else:
        what = f"all ask for {asked[0]}, and it has no topology"
        remedy = "Give the flavour the `topology` with that level, or take `topology` from its GPU type."
    name = f"flavour {flavour.name}"
    raise UserError(f"no Job could run on the {name}: {what}", where=name, remedy=remedy)


def _ways(settings: KubernetesSettings, flavour: Flavour) -> Iterator[tuple[tuple[Toleration, ...], Near | None]]:
    """Tolerations and topology of each kind of Job whose node selector the flavour's labels do not contradict."""
    resources = {GpuType().resource, *(each.resource for each in settings.gpu_types.values())}
    has_gpus = any(flavour.capacity.get(name, "0") != "0" for name in resources)
    gpus: Sequence[Place] = list(settings.gpu_types.values()) if has_gpus else []
    for place, gpu in product((settings.on_demand, settings.spot_nodes), gpus or [Place()]):
        wanted = {**place.node_selector, **gpu.node_selector}
        if all(flavour.labels.get(label, value) == value for label, value in wanted.items()):
            tolerated = (*place.tolerations, *gpu.tolerations, *settings.from_dagster.tolerations)
            yield tolerated, gpu.topology if isinstance(gpu, GpuType) else None
