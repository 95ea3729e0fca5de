"""A pod plan as the objects that the Kubernetes API takes: plain dicts, made without a cluster."""

from typing import Any

from ft_resources.kubernetes import names
from ft_resources.kubernetes.plan import MASTER_PORT, PodPlan
from ft_resources.kubernetes.pod import pod_spec

Manifest = dict[str, Any]


def to_k8s(plan: PodPlan) -> list[Manifest]:
    """The Job, and for several nodes the headless Service by which they find each other and the policy that lets them.

    The Job comes first: the others are to be created with ``owned_by`` it, and go when it goes.
    """
    if plan.nodes == 1:
        return [job(plan)]
    return [job(plan), _service(plan), _ranks_policy(plan)]


def owned_by(manifest: Manifest, job_object: Manifest) -> Manifest:
    """``manifest``, to be removed by the cluster together with the Job that it was created for."""
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
    """The Job of an attempt: it is never tried again by Kubernetes, as attempts are ours to count.

    A disruption and each exit code of a worker fail the whole Job at once, so all ranks end together, and the Job's
    condition still says why when the pods are gone.
    """
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(plan, queueing=True),
        "spec": {
            "completionMode": "Indexed",
            "completions": plan.nodes,
            "parallelism": plan.nodes,
            "backoffLimit": 0,
            "suspend": plan.queue is not None,
            "activeDeadlineSeconds": plan.timeout_s,
            "ttlSecondsAfterFinished": plan.keep_finished_s,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": _failure_rules()},
            "template": {
                "metadata": {"labels": _pod_labels(plan), "annotations": _pod_notes(plan)},
                "spec": pod_spec(plan),
            },
        },
    }


def _failure_rules() -> list[Manifest]:
    """Rules in the order in which they are looked at: which of them was met is in the Job's condition."""
    return [
        {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}},
    ]


def _metadata(plan: PodPlan, *, queueing: bool = False) -> Manifest:
    labels = {**names.job_labels(plan.address, plan.attempt), names.STORE: plan.store}
    if queueing and plan.queue:
        labels[names.QUEUE] = plan.queue
        if plan.priority_class:
            labels[names.PRIORITY] = plan.priority_class
    return {
        "name": plan.name,
        "namespace": plan.namespace,
        "labels": labels,
        "annotations": {
            names.ADDRESS: str(plan.address),
            names.LABEL: plan.label,
            names.CAPACITY: "spot" if plan.spot else "on-demand",
        },
    }


def _pod_labels(plan: PodPlan) -> dict[str, str]:
    """By ``JUDGES`` the tenant's network policy knows the pods that may go to judges."""
    return {**names.job_labels(plan.address, plan.attempt), **({names.JUDGES: "true"} if plan.asks_judges else {})}


def _pod_notes(plan: PodPlan) -> dict[str, str]:
    # A node's autoscaler must not move a training to save a node.
    notes = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    return {**notes, **({names.TOPOLOGY: plan.topology} if plan.topology and plan.queue else {})}


def _service(plan: PodPlan) -> Manifest:
    """Gives each pod its host name, before it is ready: ranks meet while they start."""
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
    """Pods of this Job reach each other at any port, as collectives choose theirs; others of the tenant do not."""
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
