"""The Job of an attempt, by what is known of the attempts before it."""

from collections.abc import Sequence
from typing import NamedTuple

from ft_resources.attempts import Attempt, attempts_at
from ft_resources.kubernetes.job_plan import PodPlan, plan_pod
from ft_resources.kubernetes.placement import lost_spot
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.outcomes import Outcome
from ft_resources.work import WorkSpec


class Past(NamedTuple):
    """What earlier attempts mean for the next one's Job: arguments of ``plan_pod``."""

    spot_losses: int
    avoid: tuple[str, ...]
    save_s: float
    waits_since: float | None


def past_of(attempt: Attempt) -> Past:
    """Reads the records of every earlier attempt, however many sizes are then planned with it."""
    earlier = [each for each in attempts_at(attempt.store, attempt.address) if each.number < attempt.number]
    return Past(
        spot_losses=sum(map(lost_spot, earlier)),
        avoid=tuple(node for each in earlier for node in each.sick_nodes()),
        save_s=max((float(each.progress().get("save_s", 0.0)) for each in earlier), default=0.0),
        waits_since=_waits_since(earlier),
    )


def plan_attempt(
    spec: WorkSpec, attempt: Attempt, settings: KubernetesSettings, module: str = "ft_assets.worker"
) -> PodPlan:
    """The Job of ``spec`` as ``attempt``: off spot nodes once it lost enough of them, not on a node that was found not
    well, with time for its slowest save. Raises UserError as ``plan_pod``."""
    return plan_pod(spec, settings, **past_of(attempt)._asdict(), module=module)


def _waits_since(earlier: Sequence[Attempt]) -> float | None:
    """When the first of the Jobs began to wait that this one replaces at another size, none of which ran; None if it
    replaces none."""
    since = None
    for each in reversed(earlier):
        ending = each.ending()
        if ending is None or ending.outcome is not Outcome.RESIZED or each.progress():
            break
        since = each.claimed_at()
    return since
