"""What a tenant's namespace has before the first Job: who its workers are, and whom they may talk to."""

from typing import Any

from ft_resources.kubernetes.names import JUDGES, MANAGED_BY, TENANT
from ft_resources.kubernetes.reach import Egress, JudgeReach, JudgeService
from ft_resources.kubernetes.settings import KubernetesSettings

Manifest = dict[str, Any]


def tenant_objects(settings: KubernetesSettings, tenant: str, judges: JudgeReach | None = None) -> list[Manifest]:
    """Namespace, service account without any rights, and network policies, for an administrator to apply.

    ``judges`` are those that the tenant's evaluations may ask; None: none behind an endpoint.

    Pod security "restricted" is enforced by the API server, so a Job that asks for more is refused whoever made it.
    A host-path cache is more than "restricted" allows: then it is "baseline" without host paths that must be relaxed
    to "privileged", which is why that cache is not the default.
    """
    namespace, account = settings.namespace_of(tenant), settings.service_account_of(tenant)
    labels = {"app.kubernetes.io/managed-by": MANAGED_BY, TENANT: tenant}
    level = "privileged" if settings.cache.kind == "host-path" else "restricted"
    notes = {}
    if settings.identity:
        notes["eks.amazonaws.com/role-arn"] = settings.identity.role_arn.replace("{tenant}", tenant)
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {**labels, "pod-security.kubernetes.io/enforce": level}},
        },
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": account, "namespace": namespace, "labels": labels, "annotations": notes},
            "automountServiceAccountToken": False,
        },
        _policy("ft-default-deny", namespace, labels, {"policyTypes": ["Ingress", "Egress"]}),
        _policy(
            "ft-store",
            namespace,
            labels,
            {
                "policyTypes": ["Egress"],
                "egress": [_dns(settings.dns_namespace), *(_egress(each) for each in settings.store_egress)],
            },
        ),
        *_to_judges(settings, namespace, labels, judges or JudgeReach()),
    ]


def _to_judges(
    settings: KubernetesSettings, namespace: str, labels: dict[str, str], judges: JudgeReach
) -> list[Manifest]:
    """The policy of the pods that ask judges. A policy cannot name hosts, so it opens where judges of the tenant's
    kinds are; the worker itself asks no host but those of ``judge_hosts``."""
    wanted, ways = settings.judges, list[Manifest]()
    if judges.public:
        ways += [_egress(each) for each in wanted.egress]
    if judges.private:
        ways += [*(_egress(each) for each in wanted.private_egress), *(_service(each) for each in wanted.services)]
    if not ways:
        return []
    policy = _policy("ft-judges", namespace, labels, {"policyTypes": ["Egress"], "egress": ways})
    policy["spec"]["podSelector"] = {"matchLabels": {JUDGES: "true"}}
    return [policy]


def _policy(name: str, namespace: str, labels: dict[str, str], rules: Manifest) -> Manifest:
    """A policy over all pods of the namespace; where several apply, each allows what it names."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"podSelector": {}, **rules},
    }


def _dns(namespace: str) -> Manifest:
    return {
        "to": [
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
            }
        ],
        "ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")],
    }


def _egress(each: Egress) -> Manifest:
    block: Manifest = {"cidr": each.cidr}
    if each.except_cidrs:
        block["except"] = list(each.except_cidrs)
    return {"to": [{"ipBlock": block}], "ports": [{"protocol": "TCP", "port": each.port}]}


def _service(each: JudgeService) -> Manifest:
    peer: Manifest = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": each.namespace}}}
    if each.pod_labels:
        peer["podSelector"] = {"matchLabels": dict(each.pod_labels)}
    return {"to": [peer], "ports": [{"protocol": "TCP", "port": each.port}]}
