"""The same Job for clusters that queue with Volcano instead of Kueue: a golden file shows it, nothing launches it.

https://volcano.sh/en/docs/vcjob/: a gang by ``minAvailable``, its queue and priority class by name.
"""

from typing import Any

from ft_resources.kubernetes.manifests import job
from ft_resources.kubernetes.plan import PodPlan


def volcano_job(plan: PodPlan, queue: str) -> dict[str, Any]:
    """A Volcano Job that starts all nodes or none; what it does not have (failure policies) is in its ``policies``."""
    whole = job(plan)
    template = whole["spec"]["template"]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": whole["metadata"],
        "spec": {
            "schedulerName": "volcano",
            "queue": queue,
            "priorityClassName": plan.priority_class,
            "minAvailable": plan.nodes,
            "maxRetry": 0,
            "ttlSecondsAfterFinished": plan.keep_finished_s,
            "policies": [{"event": event, "action": "AbortJob"} for event in ("PodFailed", "PodEvicted")],
            "plugins": {"svc": [], "env": []} if plan.nodes > 1 else {},
            "tasks": [{"name": "worker", "replicas": plan.nodes, "template": template}],
        },
    }
