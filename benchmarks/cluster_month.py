"""Do tiers mean something? A month of 500 submissions a day through the queues that the platform generates.

The tiers are those of the example (k8s/kustomize/base/tenants.yaml), with 200 tenants, on 64 GPUs on demand and 64 on
spot nodes. docs/how-to/tiers.md says which of Kueue's rules are simulated, and what is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from benchmarks.month_queue import Month, Run, month_of
from benchmarks.month_trace import DAY_S, HOUR_S, draw_losses, draw_month
from ft_assets.api.cluster_plans import tiers_of_cluster
from ft_assets.settings.tenants import Tenant, TenantsFile, load_tenants
from ft_resources.kubernetes.flavours import Flavour, amount_and_unit, read_flavours
from ft_resources.kubernetes.kueue import Manifest, platform_queues
from ft_resources.kubernetes.settings_file import read_settings

BASE = Path(__file__).parents[1] / "k8s" / "kustomize" / "base"
TENANTS = {"premium": 20, "standard": 60, "free": 120}
LOAD, PER_DAY, DAYS = 0.85, 500.0, 30.0
_NODES, _NODE_GPUS, _SEED = 8, 8, 20261127
STARVED_S = 24 * HOUR_S
_GOAL_S = 300.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TierMonth:
    """Waits of a tier, in seconds: for the first start (middle, 95th and last), and in all of who waited longest."""

    runs: int
    p50: float
    p95: float
    most: float
    most_in_all: float


def simulate(
    *,
    days: float = DAYS,
    per_day: float = PER_DAY,
    load: float = LOAD,
    nodes: int = _NODES,
    tenants: TenantsFile | None = None,
    objects: Sequence[Manifest] | None = None,
    seed: int = _SEED,
) -> Month:
    """A simulated month. ``nodes`` are those of each kind; ``objects`` replace the generated ones."""
    tenants = tenants or example_tenants()
    if objects is None:
        objects = generated(tenants, nodes)
    gpus = {False: nodes * _NODE_GPUS, True: nodes * _NODE_GPUS}
    named = {tier: [name for name, one in tenants.tenants.items() if one.tier == tier] for tier in TENANTS}
    month = month_of(
        draw_month(named, gpus=gpus, load=load, per_day=per_day, days=days, seed=seed),
        {name: tier.priority for name, tier in tenants.tiers.items()},
        settings=read_settings(str(BASE / "kubernetes.yaml")),
        objects=objects,
        losses=draw_losses(nodes=nodes, days=days, seed=seed),
        seed=seed,
    )
    month.run()
    return month


def example_tenants(counts: dict[str, int] | None = None) -> TenantsFile:
    """The example's tiers with as many tenants as a month has."""
    tiers = load_tenants(BASE / "tenants.yaml")
    named = {
        f"{tier}-{number:03d}": Tenant(tier=tier)
        for tier, many in (counts or TENANTS).items()
        for number in range(many)
    }
    return tiers.model_copy(update={"tenants": named})


def generated(tenants: TenantsFile, nodes: int) -> list[Manifest]:
    """Kueue's objects for the example's flavours with ``nodes`` of each kind."""
    flavours = [_many(each, nodes) for each in read_flavours(BASE / "flavours.yaml")]
    return platform_queues(read_settings(str(BASE / "kubernetes.yaml")), flavours, tiers_of_cluster(tenants))


def _many(flavour: Flavour, nodes: int) -> Flavour:
    of_one = {name: amount_and_unit(said) for name, said in flavour.capacity.items()}
    capacity = {name: f"{amount * nodes}{unit}" for name, (amount, unit) in of_one.items()}
    return flavour.model_copy(update={"capacity": capacity})


def waits(runs: Sequence[Run]) -> TierMonth:
    first = sorted(each.first_wait_s or 0.0 for each in runs)
    cuts = quantiles(first, n=100)
    in_all = max(each.waited_s for each in runs)
    return TierMonth(runs=len(runs), p50=cuts[49], p95=cuts[94], most=first[-1], most_in_all=in_all)


def starved(month: Month) -> int:
    """Trainings that waited longer than a day in all, or never ended."""
    return sum(each.ended is None or each.waited_s > STARVED_S for each in month.runs.values())


def utilisation(month: Month, *, days: float, gpus: int) -> tuple[float, float]:
    """Parts of all GPU-time of the month that Jobs held, and that they trained."""
    whole = days * DAY_S * gpus
    held = sum(each.held_gpu_s for each in month.runs.values())
    trained = sum(each.asked.gpus * each.asked.seconds for each in month.runs.values() if each.ended is not None)
    return held / whole, trained / whole
