"""A pod plan as Kubernetes manifests: plain dicts, built without a cluster."""

from typing import Any

from ft_resources.kubernetes import names
from ft_resources.kubernetes.dagster_pod import with_config
from ft_resources.kubernetes.job_plan import MASTER_PORT, PodPlan
from ft_resources.kubernetes.pod import pod_spec

Manifest = dict[str, Any]


def to_k8s(plan: PodPlan) -> list[Manifest]:
    """The Job; for several nodes also the headless Service for discovery and the network policy between the pods.

    The Job comes first: the others are created with ``owned_by`` it, so the cluster deletes them with it.
    """
    if plan.nodes == 1:
        return [job(plan)]
    return [job(plan), _service(plan), _ranks_policy(plan)]


def owned_by(manifest: Manifest, job_object: Manifest) -> Manifest:
    """``manifest`` with an owner reference, so that the cluster deletes it together with its Job."""
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job_object["metadata"]["name"],
        "uid": job_object["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": False,
    }
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [owner]}}


def job(plan: PodPlan) -> Manifest:
    """The Job of an attempt. Kubernetes never retries it: the platform counts attempts.

    Any disruption or worker exit fails the whole Job, so all ranks end together, and the Job's condition still says why
    after the pods are gone.
    """
    made = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(plan, queueing=True),
        "spec": {
            "completionMode": "Indexed",
            "completions": plan.nodes,
            "parallelism": plan.nodes,
            "backoffLimit": 0,
            "suspend": plan.queue is not None,
            "activeDeadlineSeconds": int(plan.spec.resources.timeout_s or plan.settings.run_timeout_s),
            "ttlSecondsAfterFinished": plan.settings.keep_finished_s,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": _failure_rules()},
            "template": {
                "metadata": {"labels": _pod_labels(plan), "annotations": _pod_notes(plan)},
                "spec": pod_spec(plan),
            },
        },
    }
    return with_config(made, plan.asked) if plan.asked else made


def _failure_rules() -> list[Manifest]:
    """Pod failure rules in order of evaluation; the Job's condition names the rule that matched."""
    return [
        {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}},
    ]


def _metadata(plan: PodPlan, *, queueing: bool = False) -> Manifest:
    labels, sizes = names.job_labels(plan.spec.address, plan.spec.attempt), plan.spec.resources.gpu_sizes
    labels[names.STORE] = names.store_label(plan.spec.store_url)
    if queueing and plan.queue:
        labels[names.QUEUE] = plan.queue
        if plan.priority_class:
            labels[names.PRIORITY] = plan.priority_class
    return {
        "name": plan.name,
        "namespace": plan.namespace,
        "labels": labels,
        "annotations": {
            names.ADDRESS: str(plan.spec.address),
            names.LABEL: plan.spec.label,
            names.CAPACITY: "spot" if plan.spot else "on-demand",
            **({names.WAITS_SINCE: f"{plan.waits_since:.0f}"} if plan.waits_since else {}),
            **({names.GPU_SIZES: ",".join(map(str, sizes))} if sizes else {}),
        },
    }


def _pod_labels(plan: PodPlan) -> dict[str, str]:
    """Labels; the tenant's network policy lets pods with ``JUDGES`` reach judges."""
    judges = {names.JUDGES: "true"} if plan.spec.runtime.get("judge_hosts") else {}
    return {**names.job_labels(plan.spec.address, plan.spec.attempt), **judges}


def _pod_notes(plan: PodPlan) -> dict[str, str]:
    # A node's autoscaler must not move a training to save a node.
    notes = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    near = plan.topology if plan.queue else None
    if near is None:
        return notes
    if plan.nodes == 1:
        # Kueue gives a flavour with a topology to nobody who does not ask for one.
        return {**notes, names.ANYWHERE: "true"}
    return {**notes, names.TOPOLOGY_REQUIRED if near.required else names.TOPOLOGY_PREFERRED: near.level}


def _service(plan: PodPlan) -> Manifest:
    """The headless Service: pods resolve each other's host names before they are ready, as ranks meet at start-up."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(plan),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.JOB: plan.name},
            "ports": [{"name": "rendezvous", "port": MASTER_PORT, "protocol": "TCP"}],
        },
    }


def _ranks_policy(plan: PodPlan) -> Manifest:
    """Pods of this Job reach each other on any port, as collectives choose; the tenant's other pods do not."""
    peers = [{"podSelector": {"matchLabels": {names.JOB: plan.name}}}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(plan),
        "spec": {
            "podSelector": {"matchLabels": {names.JOB: plan.name}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": peers}],
            "egress": [{"to": peers}],
        },
    }
