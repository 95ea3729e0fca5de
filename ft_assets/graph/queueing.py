"""What a tenant's tier says of queues: the tags of its runs and their place in Dagster's queue. Pure.

The cluster's queue has priority classes of its own (``ft_resources/kubernetes/ageing.py``); both age by one rule.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ft_assets.api import Stage
from ft_assets.settings import tags
from ft_assets.settings.tenants import TenantsFile
from ft_resources.kubernetes.ageing import rank
from ft_resources.kubernetes.settings import Ageing
from ft_resources.work import Priority

# Runs without a place have 0. So far apart that ageing can be told in whole numbers between them (see ``rank``).
_PLACES: dict[Priority, int] = {"production": 100, "batch": 0, "interactive": -100}
_APART = 100
_EVERY_S = Ageing().every_hours * 3600.0
_TRAININGS = frozenset({Stage.TRAIN_PAIR.value, Stage.TRAIN_TRIAL.value})


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuedRun:
    """A run that Dagster has not started. ``trains``: whether a training is among its steps."""

    run_id: str
    tenant: str
    trains: bool
    tags: Mapping[str, str]
    waited_s: float


def tier_tags(tenants: TenantsFile, tenant: str, *, trains: bool, waited_s: float = 0.0) -> dict[str, str]:
    """The tags of a run of ``tenant`` that has waited this long: its queue priority and, for a training, its tier."""
    tier = tenants.tier_of(tenant)
    found = {tags.PRIORITY: str(rank(_PLACES[tier.priority], _APART, waited_s, _EVERY_S))}
    if trains:
        found |= {tags.TRAINS: "true", tags.TRAINS_TIER: tenants.tier_name_of(tenant)}
        found |= {tags.YIELDS: "true"} if tier.priority != "production" else {}
    return found


def is_training(job_name: str) -> bool:
    return job_name in _TRAININGS


def plan_tags(runs: Sequence[QueuedRun], tenants: TenantsFile) -> dict[str, dict[str, str]]:
    """Tags to add, by run: for runs that have waited long enough to rise, and for untagged runs (launched by hand). A
    priority is only ever raised, so one set by hand is kept; so is a run's own tier.
    """
    found: dict[str, dict[str, str]] = {}
    for run in runs:
        wanted = tier_tags(tenants, run.tenant, trains=run.trains, waited_s=run.waited_s)
        if tags.PRIORITY in run.tags and _place(run.tags) >= int(wanted[tags.PRIORITY]):
            del wanted[tags.PRIORITY]
        if tags.TRAINS_TIER in run.tags:
            wanted = {name: value for name, value in wanted.items() if name == tags.PRIORITY}
        if wanted:
            found[run.run_id] = wanted
    return found


def _place(run_tags: Mapping[str, str]) -> int:
    """As Dagster reads it: a missing or non-numeric value is 0."""
    try:
        return int(run_tags.get(tags.PRIORITY, "0"))
    except ValueError:
        return 0
