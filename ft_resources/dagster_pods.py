"""Dagster's own configuration of pods, for a step whose work is done in a pod of its own."""

from typing import Any

import dagster as dg

from ft_resources.launchers.base import Pods


def pod_of_step(context: dg.AssetExecutionContext, pods: Pods) -> dict[str, Any]:
    """What the step's worker gets of it, as ``UserDefinedDagsterK8sConfig.to_dict``; empty if there is nothing.

    What stands later wins: the instance's run launcher, the code location's container context, the tag
    ``dagster-k8s/config`` on the job's definition, and on the op's. A run's own tag is not read: it is set by whoever
    may launch a run. Raises UserError for what a worker's pod may not have.
    """
    from dagster_k8s import K8sRunLauncher
    from dagster_k8s.container_context import K8sContainerContext
    from dagster_k8s.job import USER_DEFINED_K8S_CONFIG_KEY, get_user_defined_k8s_config

    asked, defined = (tags.get(USER_DEFINED_K8S_CONFIG_KEY) for tags in (context.run.tags, context.job_def.run_tags))
    if asked != defined:
        context.log.warning(
            f"the run's tag {USER_DEFINED_K8S_CONFIG_KEY} changes no worker's pod; the same tag on the definition of a "
            "job or an op does"
        )
    launcher = context.instance.run_launcher
    launcher = launcher if isinstance(launcher, K8sRunLauncher) else None
    instance = K8sContainerContext.create_for_run(context.run, launcher, include_run_tags=False)
    work = K8sContainerContext()
    for tags in (context.job_def.run_tags, context.op_execution_context.op.tags):
        work = work.merge(K8sContainerContext(run_k8s_config=get_user_defined_k8s_config(tags)))
    return pods.honoured(instance.run_k8s_config.to_dict(), work.run_k8s_config.to_dict())
