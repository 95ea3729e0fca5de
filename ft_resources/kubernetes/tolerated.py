"""Whether a Job of these settings can be admitted to a flavour at all: Kueue never gives one whose taint a pod does not
tolerate. Pure."""

from collections.abc import Iterator, Sequence
from itertools import product

from ft_resources.errors import UserError
from ft_resources.kubernetes.flavours import Flavour, Taint
from ft_resources.kubernetes.settings import GpuType, KubernetesSettings, Place, Toleration

KEEPS_OUT = ("NoSchedule", "NoExecute")


def require_tolerated(settings: KubernetesSettings, flavours: Sequence[Flavour]) -> None:
    """Raise UserError for the first flavour whose taints no Job of these settings tolerates: its nodes would stay idle,
    and work that needs them would wait for ever."""
    for flavour in flavours:
        taints = [taint for taint in flavour.taints if taint.effect in KEEPS_OUT]
        ways = list(_ways(settings, flavour))
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


def _ways(settings: KubernetesSettings, flavour: Flavour) -> Iterator[tuple[Toleration, ...]]:
    """The tolerations of each kind of Job whose node selector the flavour's labels do not contradict."""
    resources = {GpuType().resource, *(each.resource for each in settings.gpu_types.values())}
    has_gpus = any(flavour.capacity.get(name, "0") != "0" for name in resources)
    gpus: Sequence[Place] = list(settings.gpu_types.values()) if has_gpus else []
    for place, gpu in product((settings.on_demand, settings.spot_nodes), gpus or [Place()]):
        wanted = {**place.node_selector, **gpu.node_selector}
        if all(flavour.labels.get(label, value) == value for label, value in wanted.items()):
            yield (*place.tolerations, *gpu.tolerations)
