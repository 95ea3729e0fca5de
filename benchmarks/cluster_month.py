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
from benchmarks.table import Figure
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
_GOAL_MIN = 5.0


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


def example_tenants() -> TenantsFile:
    """The example's tiers with as many tenants as a month has."""
    tiers = load_tenants(BASE / "tenants.yaml")
    named = {f"{tier}-{number:03d}": Tenant(tier=tier) for tier, many in TENANTS.items() for number in range(many)}
    return tiers.model_copy(update={"tenants": named})


def generated(tenants: TenantsFile, nodes: int) -> list[Manifest]:
    """Kueue's objects for the example's flavours with ``nodes`` of each kind."""
    flavours = [_many(each, nodes) for each in read_flavours(BASE / "flavours.yaml").flavours]
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


def money(month: Month, tenants: TenantsFile) -> tuple[float, float]:
    """What tenants pay, and what the GPU-hours would have cost that nobody pays: of attempts that gave way or lost
    their node, though what they saved is not lost."""
    (price,) = tenants.gpu_prices.values()
    paid = unpaid = 0.0
    for each in month.runs.values():
        factor = price * tenants.tiers[each.asked.tier].price_factor / HOUR_S
        paid += factor * (each.held_gpu_s - each.unpaid_gpu_s)
        unpaid += factor * each.unpaid_gpu_s
    return paid, unpaid


def starved(month: Month) -> int:
    """Trainings that waited longer than a day in all, or never ended."""
    return sum(each.ended is None or each.waited_s > STARVED_S for each in month.runs.values())


def utilisation(month: Month, *, days: float, gpus: int) -> tuple[float, float]:
    """Parts of all GPU-time of the month that Jobs held, and that they trained."""
    whole = days * DAY_S * gpus
    held = sum(each.held_gpu_s for each in month.runs.values())
    trained = sum(each.asked.gpus * each.asked.seconds for each in month.runs.values() if each.ended is not None)
    return held / whole, trained / whole


def figures(*, days: float = DAYS) -> list[Figure]:
    """Of a simulated month; of fewer ``days`` they meet no goal."""
    tenants = example_tenants()
    month = simulate(days=days, tenants=tenants)
    whole = days >= DAYS
    by_tier = {name: waits([run for run in month.runs.values() if run.asked.tier == name]) for name in TENANTS}
    held, trained = utilisation(month, days=days, gpus=2 * _NODES * _NODE_GPUS)
    paid, unpaid = money(month, tenants)
    hungry, gave_way = starved(month), [each.gave_way for each in month.runs.values()]
    p95, longest = by_tier["premium"].p95 / 60, max(found.most_in_all for found in by_tier.values())
    around = f"{len(month.runs):,} trainings in {days:g} days at {LOAD:.0%} load"
    reported = [
        (f"{name}_wait_p{at}_min", f"{name}: wait for the first start, {words}, min", seconds / 60)
        for name, found in by_tier.items()
        for at, words, seconds in ((50, "in the middle", found.p50), (95, "95 %", found.p95))
        if (name, at) != ("premium", 95)
    ]
    reported += [
        ("longest_wait_h", "longest wait of a training, in all, h", longest / HOUR_S),
        ("utilisation_held", "part of the GPU-time that Jobs held", held),
        ("gave_way_per_training", "times that a training gave way, on average", sum(gave_way) / len(gave_way)),
        ("gave_way_most", "times that one training gave way, at most", float(max(gave_way))),
        ("billed", f"what tenants pay, {tenants.currency}", paid),
        ("not_billed", f"price of hours that nobody pays, {tenants.currency}", unpaid),
    ]
    return [
        _figure("premium_wait_p95_min", f"premium: 95 % wait, min; {around}", p95, "<= 5", p95 <= _GOAL_MIN, whole),
        _figure("starved", "trainings that waited over 24 h in all, or never ended", hungry, "0", hungry == 0, whole),
        _figure("utilisation", "part of the GPU-time that trained", trained, "reported", True, whole),
        *(_figure(key, what, value, "reported", True, whole) for key, what, value in reported),
    ]


def _figure(key: str, what: str, ours: float, goal: str, met: bool, whole: bool) -> Figure:
    return Figure(key=key, what=what, ours=ours, peer=None, peer_is="", goal=goal, met=met if whole else None)
