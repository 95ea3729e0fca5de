"""All manifests that an administrator applies for tenants, built from the settings and a list of flavours."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from ft_resources.kubernetes.dagster_pod import toleration_text
from ft_resources.kubernetes.egress import Egress, JudgeReach, JudgeService
from ft_resources.kubernetes.flavours import FlavoursFile
from ft_resources.kubernetes.kueue import platform_queues
from ft_resources.kubernetes.names import JUDGES, MANAGED_BY, METRICS_PORT, TENANT
from ft_resources.kubernetes.places import Place
from ft_resources.kubernetes.pod import tolerated
from ft_resources.kubernetes.quota_plan import TierOfCluster
from ft_resources.kubernetes.settings import KubernetesSettings

Manifest = dict[str, Any]
LAUNCHER_ROLE = "ft-launcher"
ADMISSION = "ft-admission"
"""The ConfigMap that the admission policy reads in a tenant's namespace."""
API_ROLE = "ft-api"
"""The ClusterRoles of ``k8s/kustomize/base/rbac.yaml``, of the control plane and of the HTTP API."""


def platform_objects(
    settings: KubernetesSettings,
    tenants: Sequence[str],
    nodes: FlavoursFile | None = None,
    tiers: Sequence[TierOfCluster] = (),
    *,
    judges: Mapping[str, JudgeReach] | None = None,
    account: str = "ft-control-plane",
    api_account: str = "ft-api",
    namespace: str = "",
) -> list[Manifest]:
    """Namespaces, accounts, policies and rights for each tenant, and Kueue's objects if the settings name a queue.

    Args:
        nodes: the kinds of nodes; without them there are no queues.
        tiers: all tiers with all their tenants, whose quota depends on each other's.
        judges: the judges that evaluations may ask, by tenant; tenants not listed have none.
        account: the control plane's service account, in ``namespace``, which may launch in tenants' namespaces.
        api_account: the HTTP API's, which may stop work there.
        namespace: the control plane's; if empty, the one in the settings.
    """
    namespace = namespace or settings.control_namespace
    settings = settings.model_copy(update={"control_namespace": namespace})
    objects = [each for tenant in tenants for each in tenant_objects(settings, tenant, (judges or {}).get(tenant))]
    bound = ((LAUNCHER_ROLE, account), (API_ROLE, api_account))
    objects += [_bound(settings, tenant, role, who, namespace) for tenant in tenants for role, who in bound]
    if not settings.queue or nodes is None:
        return objects
    return objects + platform_queues(settings, nodes.flavours, tiers, tenants, topologies=nodes.topologies)


def tenant_objects(settings: KubernetesSettings, tenant: str, judges: JudgeReach | None = None) -> list[Manifest]:
    """Namespace, service account without any rights, what the admission policy allows, and network policies, for an
    administrator to apply.

    ``judges`` are those that the tenant's evaluations may ask; None means no endpoint judges.

    The API server enforces pod security "restricted", so it refuses a Job that asks for more, whoever created it.
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
        _admission(settings, tenant, labels),
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
        *_to_metrics(settings, namespace, labels),
    ]


def _bound(settings: KubernetesSettings, tenant: str, role: str, account: str, namespace: str) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {
            "name": role,
            "namespace": settings.namespace_of(tenant),
            "labels": {"app.kubernetes.io/managed-by": MANAGED_BY, TENANT: tenant},
        },
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


def _admission(settings: KubernetesSettings, tenant: str, labels: dict[str, str]) -> Manifest:
    """What the policy in ``k8s/kustomize/base/admission-policy.yaml`` lets the tenant's Jobs have."""
    own = (image.partition("@")[0] for image in (settings.image, *settings.images.values()))
    images = dict.fromkeys([*own, *settings.image_repositories])
    more = settings.from_dagster
    secrets = [settings.judges.secret, *([settings.secret] if settings.secret else []), *more.secrets]
    kinds = settings.on_demand, settings.spot_nodes
    places = list(product(kinds, [Place(), *settings.gpu_types.values()]))
    tolerations = tolerated([each for pair in places for part in pair for each in part.tolerations], 0)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": ADMISSION, "namespace": settings.namespace_of(tenant), "labels": labels},
        "data": {
            "images": ",".join(images),
            "secrets": ",".join(secrets),
            "service_account": settings.service_account_of(tenant),
            "host_path": settings.cache.path_of(tenant) if settings.cache.kind == "host-path" else "",
            "warm_path": settings.cache.warm_path if settings.keeps_bases else "",
            "node_selectors": ";".join(dict.fromkeys(_labels(*each) for each in places)),
            "tolerations": ",".join(
                dict.fromkeys([*map(_taint, tolerations), *map(toleration_text, more.tolerations)])
            ),
            # Of Dagster's configuration, for volumes and beside the labels above.
            "mounted_secrets": ",".join(more.secrets),
            "config_maps": ",".join(more.config_maps),
            "claims": ",".join(more.claims),
            "more_labels": ",".join(f"{label}={value}" for label, found in more.node_labels.items() for value in found),
            "queue": settings.queue_of(tenant) or "",
            "priorities": ",".join(settings.priority_classes.values()),
            "runtime_class": (settings.run_code and settings.run_code.runtime_class) or "",
            "seccomp": (settings.run_code and settings.run_code.seccomp_profile) or "",
            "apparmor": (settings.run_code and settings.run_code.apparmor_profile) or "",
        },
    }


def _labels(place: Place, gpu: Place) -> str:
    """The labels of a Job's nodes, as the policy compares them."""
    return ",".join(f"{label}={value}" for label, value in {**place.node_selector, **gpu.node_selector}.items())


def _taint(toleration: Manifest) -> str:
    """A pod's tolerations, as the policy compares them."""
    return ":".join(toleration.get(field, "") for field in ("key", "operator", "value", "effect"))


def _to_judges(
    settings: KubernetesSettings, namespace: str, labels: dict[str, str], judges: JudgeReach
) -> list[Manifest]:
    """The policy of pods that ask judges. A policy cannot name hosts, so it allows the addresses of the tenant's kinds
    of judges; the worker itself only asks hosts in ``judge_hosts``."""
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


def _to_metrics(settings: KubernetesSettings, namespace: str, labels: dict[str, str]) -> list[Manifest]:
    """The policy by which Prometheus reaches the port where workers serve their figures, if one scrapes."""
    if not settings.monitoring_namespace:
        return []
    source = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": settings.monitoring_namespace}}}
    rule = {"from": [source], "ports": [{"protocol": "TCP", "port": METRICS_PORT}]}
    return [_policy("ft-metrics", namespace, labels, {"policyTypes": ["Ingress"], "ingress": [rule]})]


def _policy(name: str, namespace: str, labels: dict[str, str], rules: Manifest) -> Manifest:
    """A policy for all pods of the namespace. Several policies add up: each allows what it names."""
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
