"""The Job of an attempt, by what is known of the attempts before it."""

from ft_resources.attempts import Attempt, attempts_at
from ft_resources.kubernetes.job_plan import PodPlan, plan_pod
from ft_resources.kubernetes.placement import lost_spot
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.work import WorkSpec


def plan_attempt(
    spec: WorkSpec, attempt: Attempt, settings: KubernetesSettings, module: str = "ft_assets.worker"
) -> PodPlan:
    """The Job of ``spec`` as ``attempt``: off spot nodes once it lost enough of them, not on a node that was found not
    well, with time for its slowest save. Raises UserError as ``plan_pod``."""
    earlier = [each for each in attempts_at(attempt.store, attempt.address) if each.number < attempt.number]
    return plan_pod(
        spec,
        settings,
        spot_losses=sum(map(lost_spot, earlier)),
        avoid=[node for each in earlier for node in each.sick_nodes()],
        save_s=max((float(each.progress().get("save_s", 0.0)) for each in earlier), default=0.0),
        module=module,
    )
