"""Which Jobs a tenant's namespace lets in: the launcher's own, in all their forms, and no others."""

import copy
from collections.abc import Callable
from typing import Any

import kubernetes_validate
import pytest
import yaml

from ft_resources.kubernetes.job_plan import plan_pod
from ft_resources.kubernetes.manifests import job
from ft_resources.kubernetes.names import TENANT
from ft_resources.kubernetes.platform import tenant_objects
from tests.k8s.cel import evaluate
from tests.k8s.chart import K8S
from tests.resources.kubernetes.specs import IMAGE, settings_of, spec_of

Job = dict[str, Any]
POLICY, BINDING = yaml.safe_load_all((K8S / "kustomize" / "base" / "admission-policy.yaml").read_text())
IDENTITY = {"role_arn": "arn:aws:iam::123456789012:role/ft-{tenant}"}
WARM: dict[str, Any] = {
    "gpu_types": {"H100": {}},
    "cache": {"kind": "host-path"},
    "keep_warm": {"H100": {"bases": [f"folder:sha256:{'c' * 64}"]}},
}
PLACES: dict[str, Any] = {
    "on_demand": {"node_selector": {"pool": "ft"}, "tolerations": [{"key": "ft", "value": "yes"}]},
    "spot_nodes": {"node_selector": {"pool": "ft-spot"}, "tolerations": [{"key": "spot", "effect": "NoExecute"}]},
    "gpu_types": {"H100": {"node_selector": {"gpu": "h100"}, "tolerations": [{"key": "nvidia.com/gpu"}]}},
}
SANDBOX = {"seccomp_profile": "profiles/a.json", "apparmor_profile": "ft-sandbox", "runtime_class": "kata"}
OTHER = f"registry.example/other@sha256:{'b' * 64}"
NAMED: dict[str, Any] = {
    "secrets": ["token"],
    "config_maps": ["ca"],
    "claims": ["data"],
    "node_labels": {"zone": ["a", "b"]},
    "tolerations": [{"key": "dedicated"}],
}
ASKED: dict[str, Any] = {
    "container_config": {
        "env": [
            {"name": "A", "value_from": {"secret_key_ref": {"name": "token", "key": "k"}}},
            {"name": "B", "value_from": {"config_map_key_ref": {"name": "ca", "key": "k"}}},
        ],
        "env_from": [{"secret_ref": {"name": "token"}}, {"config_map_ref": {"name": "ca"}}],
        "resources": {"limits": {"memory": "4Gi", "ephemeral-storage": "1Gi"}},
        "volume_mounts": [{"name": name, "mount_path": f"/{name}"} for name in ("s", "m", "c", "e")],
    },
    "pod_spec_config": {
        "volumes": [
            {"name": "s", "secret": {"secret_name": "token"}},
            {"name": "m", "config_map": {"name": "ca"}},
            {"name": "c", "persistent_volume_claim": {"claim_name": "data"}},
            {"name": "e", "empty_dir": {}},
        ],
        "node_selector": {"zone": "b"},
        "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
    },
    "pod_template_spec_metadata": {"labels": {"team": "ml"}},
}
"""What Dagster's configuration may have, of the kinds that the settings name."""
JUDGES = {
    "runtime": {"judge_hosts": [{"host": "judge.example.com", "keys": ["JUDGE_KEY"]}]},
    "asset": "eval_report",
}


def refusals(made: Job, **changes: Any) -> list[str]:
    """The messages of the rules that refuse a Job in the namespace of ``acme``."""
    printed = tenant_objects(settings_of(**changes), "acme")
    (params,) = [each for each in printed if each["kind"] == "ConfigMap"]
    assert params["metadata"]["name"] == BINDING["spec"]["paramRef"]["name"]
    scope: dict[str, Any] = {"object": made, "params": params, "variables": {}}
    for each in POLICY["spec"]["variables"]:
        scope["variables"][each["name"]] = evaluate(each["expression"], scope)
    return [rule["message"] for rule in POLICY["spec"]["validations"] if not evaluate(rule["expression"], scope)]


def job_of(spec: Any, **changes: Any) -> Job:
    return job(plan_pod(spec, settings_of(**changes)))


@pytest.mark.parametrize(
    ("asked", "changes"),
    [
        ({}, {}),
        ({"gpus": 8, "runtime": {"nodes": 2}}, {"identity": IDENTITY, "queue": "ft-{tenant}"}),
        (
            {"gpus": 8, "gpu_type": "H100", "runtime": {"nodes": 2}},
            {"gpu_types": {"H100": {"network": {"resources": {"rdma/hca": 8}, "hugepages_mib": 5120}}}},
        ),
        ({}, {"secret": "store"}),
        ({}, {"cache": {"kind": "ephemeral"}}),
        ({}, {"cache": {"kind": "host-path"}}),
        ({"gpus": 8, "gpu_type": "H100"}, WARM),
        ({}, {"service_account": "w-{tenant}", "monitoring_namespace": "monitoring"}),
        ({"gpus": 1, "gpu_type": "H100"}, PLACES),
        ({"gpus": 1, "spot": False}, PLACES),
        ({"spot": True}, PLACES),
        ({"priority": "interactive"}, {"queue": "ft-{tenant}"}),
        ({"image": OTHER}, {"image_repositories": ["registry.example/other"]}),
        ({"asset": "dataset"}, {"images": {"dataset": OTHER}}),
        ({"asset": "eval_report"}, {"run_code": SANDBOX}),
        ({"pod": ASKED}, {**PLACES, "from_dagster": NAMED}),
        (JUDGES, {"run_code": {"seccomp_profile": "profiles/ft-sandbox.json"}, "environment": {"AWS_REGION": "x"}}),
    ],
)
def test_every_job_of_the_launcher_is_let_in(asked: dict[str, Any], changes: dict[str, Any]) -> None:
    spec = spec_of(**asked)
    if asked is JUDGES:
        spec = spec.model_copy(update={"params": {"evaluation": {"judge": {"models": [{"key": "JUDGE_KEY"}]}}}})
    made = job_of(spec, **changes)
    if asked is JUDGES:
        env = made["spec"]["template"]["spec"]["containers"][0]["env"]
        assert "JUDGE_KEY" in {each["name"] for each in env}
    assert refusals(made, **changes) == []


def _pod(change: dict[str, Any]) -> Callable[[Job], None]:
    return lambda made: made["spec"]["template"]["spec"].update(change)


def _volume(source: dict[str, Any]) -> Callable[[Job], None]:
    return lambda made: made["spec"]["template"]["spec"]["volumes"].append({"name": "x", **source})


def _container(change: dict[str, Any], kind: str = "containers") -> Callable[[Job], None]:
    return lambda made: made["spec"]["template"]["spec"][kind][0].update(change)


def _variable(source: dict[str, Any]) -> Callable[[Job], None]:
    entry = {"name": "X", "valueFrom": source}
    return lambda made: made["spec"]["template"]["spec"]["containers"][0]["env"].append(entry)


_ADDED = {"drop": ["ALL"], "add": ["NET_ADMIN"]}
_TOKEN = {"serviceAccountToken": {"path": "token"}}


def _required(**term: Any) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _label(name: str, value: str) -> Callable[[Job], None]:
    return lambda made: made["metadata"]["labels"].update({name: value})


_BY_NAME = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
_ON_A_LABEL = {"key": "pool", "operator": "NotIn", "values": ["ft"]}
_NEAR = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}
_PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}
_PROBE = {"httpGet": {"host": "169.254.169.254", "port": 80}}
_LAX = {"allowPrivilegeEscalation": False, "seccompProfile": {"type": "Unconfined"}}
_ELSEWHERE = {"allowPrivilegeEscalation": False, "seccompProfile": {"type": "Localhost", "localhostProfile": "x"}}
_UNARMED = {"allowPrivilegeEscalation": False, "appArmorProfile": {"type": "Unconfined"}}
_SAFE = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        *(
            (_pod(change), "its nodes")
            for change in (
                {"nodeName": "node-1"},
                {"nodeSelector": {"node-role.kubernetes.io/control-plane": ""}},
                {"nodeSelector": {"pool": "ft", "gpu": "h100", "kubernetes.io/hostname": "node-1"}},
                {"nodeSelector": {"pool": "other"}},
                {"nodeSelector": {"pool": "ft", "zone": "c"}},
                {"nodeSelector": {"zone": "a"}},
                {"nodeSelector": {"gpu": "h100"}},
                {"nodeSelector": {}},
                {"tolerations": [{"operator": "Exists"}]},
                {"tolerations": [{"key": "ft", "operator": "Exists"}]},
                {"tolerations": [{"key": "ft", "operator": "Exists", "effect": "NoSchedule"}]},
                {"tolerations": [{"key": "ft", "value": "no", "effect": "NoSchedule"}]},
                {"tolerations": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]},
                {"affinity": {"podAffinity": _NEAR}},
                {"affinity": {"podAntiAffinity": _NEAR}},
                {"affinity": {"nodeAffinity": _PREFERRED}},
                _required(matchFields=[_BY_NAME]),
                _required(matchExpressions=[_ON_A_LABEL]),
                {"topologySpreadConstraints": [{"maxSkew": 1}]},
                {"schedulingGates": [{"name": "x"}]},
            )
        ),
        *(
            (_pod(change), "before others")
            for change in (
                {"priorityClassName": "system-node-critical"},
                {"priority": 2_000_001_000},
                {"preemptionPolicy": "Never"},
                {"schedulerName": "other"},
                {"resourceClaims": [{"name": "gpu", "resourceClaimName": "x"}]},
            )
        ),
        (_label("kueue.x-k8s.io/queue-name", "ft-globex"), "before others"),
        (_label("kueue.x-k8s.io/priority-class", "highest"), "before others"),
        (lambda made: made["metadata"]["labels"].pop("kueue.x-k8s.io/queue-name"), "before others"),
        (_pod({"runtimeClassName": "host"}), "runtime"),
        (_pod({"overhead": {"cpu": "0"}}), "runtime"),
        (_pod({"os": {"name": "windows"}}), "runtime"),
        (_pod({"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["s3.amazonaws.com"]}]}), "network"),
        (_pod({"dnsPolicy": "Default"}), "network"),
        (_pod({"dnsConfig": {"nameservers": ["10.0.0.1"]}}), "network"),
        (_pod({"imagePullSecrets": [{"name": "x"}]}), "network"),
        *((_container({probe: _PROBE}), "network") for probe in ("livenessProbe", "readinessProbe", "startupProbe")),
        (_container({"lifecycle": {"preStop": _PROBE}}, "initContainers"), "network"),
        (
            lambda made: made["spec"]["template"]["metadata"]["annotations"].update(
                {"k8s.v1.cni.cncf.io/networks": "storage"}
            ),
            "network",
        ),
        (_pod({"securityContext": {"runAsNonRoot": True}}), "confinement"),
        *(
            (_pod({"securityContext": {**_SAFE, **change}}), "confinement")
            for change in (
                {"seccompProfile": {"type": "Unconfined"}},
                {"appArmorProfile": {"type": "Unconfined"}},
                {"sysctls": [{"name": "net.ipv4.ip_forward", "value": "1"}]},
                {"supplementalGroups": [0]},
                {"seLinuxOptions": {"type": "spc_t"}},
                {"windowsOptions": {"hostProcess": True}},
            )
        ),
        (_container({"securityContext": _LAX}), "confinement"),
        (_container({"securityContext": _ELSEWHERE}, "initContainers"), "confinement"),
        (_container({"securityContext": _UNARMED}), "confinement"),
        (_container({"securityContext": {"allowPrivilegeEscalation": False, "procMount": "Unmasked"}}), "confinement"),
        (_container({"image": OTHER}), "image"),
        (_container({"image": OTHER}, "initContainers"), "image"),
        (_container({"image": "registry.example/ft:latest"}), "image"),
        (_container({"image": f"registry.example/ft.evil@sha256:{'a' * 64}"}), "image"),
        (_pod({"serviceAccountName": "default"}), "service account"),
        (lambda made: made["spec"]["template"]["spec"].pop("serviceAccountName"), "service account"),
        (_pod({"automountServiceAccountToken": True}), "service account"),
        (lambda made: made["spec"]["template"]["spec"].pop("automountServiceAccountToken"), "service account"),
        (_pod({"hostNetwork": True}), "of its node"),
        (_pod({"hostPID": True}), "of its node"),
        (_pod({"hostIPC": True}), "of its node"),
        (_container({"ports": [{"containerPort": 80, "hostPort": 80}]}), "of its node"),
        (_pod({"securityContext": {}}), "root"),
        (lambda made: made["spec"]["template"]["spec"].pop("securityContext"), "root"),
        (_pod({"securityContext": {"runAsNonRoot": False}}), "root"),
        (_container({"securityContext": {"privileged": True}}), "root"),
        (_container({"securityContext": {"allowPrivilegeEscalation": True}}, "initContainers"), "root"),
        (_container({"securityContext": {"allowPrivilegeEscalation": False, "runAsNonRoot": False}}), "root"),
        (lambda made: made["spec"]["template"]["spec"]["containers"][0].pop("securityContext"), "root"),
        (_container({"securityContext": {"allowPrivilegeEscalation": False, "capabilities": _ADDED}}), "root"),
        (_volume({"secret": {"secretName": "store"}}), "volume"),
        (_volume({"configMap": {"name": "x"}}), "volume"),
        (_volume({"hostPath": {"path": "/"}}), "volume"),
        (_volume({"persistentVolumeClaim": {"claimName": "x"}}), "volume"),
        (_volume({"csi": {"driver": "secrets-store.csi.k8s.io"}}), "volume"),
        (_volume({"projected": {"sources": [_TOKEN, {"secret": {"name": "x"}}]}}), "volume"),
        (_variable({"secretKeyRef": {"name": "other", "key": "x"}}), "variable"),
        (_variable({"configMapKeyRef": {"name": "other", "key": "x"}}), "variable"),
        (_container({"envFrom": [{"secretRef": {"name": "other"}}]}), "variable"),
        (_container({"envFrom": [{"configMapRef": {"name": "ft-admission"}}]}, "initContainers"), "variable"),
    ],
)
def test_a_job_that_reaches_for_more_is_refused_by_the_one_rule_about_it(
    change: Callable[[Job], None], said: str
) -> None:
    settings = {**PLACES, "identity": IDENTITY, "queue": "ft-{tenant}", "run_code": SANDBOX, "from_dagster": NAMED}
    made = copy.deepcopy(job_of(spec_of(), **settings))
    change(made)
    (message,) = refusals(made, **settings)
    assert said in message


def test_a_job_that_avoids_sick_nodes_is_let_in_and_so_is_what_the_api_server_adds() -> None:
    made = job(plan_pod(spec_of(), settings_of(**PLACES), avoid=["node-7"]))
    _pod({"dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"})(made)
    assert refusals(made, **PLACES) == []


@pytest.mark.parametrize(
    ("asked", "judged"),
    [
        ({"operation": "CREATE", "groups": ["system:serviceaccounts:kueue-system"]}, True),
        ({"operation": "UPDATE", "groups": []}, True),
        ({"operation": "UPDATE", "groups": ["system:serviceaccounts:kueue-system"]}, False),
        ({"operation": "UPDATE", "groups": [], "same": True}, False),
    ],
)
def test_a_job_that_waits_is_sent_to_other_nodes_by_kueue_alone(asked: dict[str, Any], judged: bool) -> None:
    """The rest of a Job's pods cannot be changed; its labels, by which it ages, can."""
    old = job_of(spec_of(), **PLACES)
    new = copy.deepcopy(old)
    _label("kueue.x-k8s.io/priority-class", "ft-batch-2")(new)
    if not asked.get("same"):
        _pod({"nodeSelector": {"pool": "other"}})(new)
    request = {"operation": asked["operation"], "userInfo": {"groups": asked["groups"]}}
    scope = {"request": request, "object": new, "oldObject": old}
    conditions = POLICY["spec"]["matchConditions"]
    assert all(evaluate(each["expression"], scope) for each in conditions) is judged
    (rule,) = POLICY["spec"]["matchConstraints"]["resourceRules"]
    assert rule["operations"] == ["CREATE", "UPDATE"]


def test_a_tenants_cache_is_no_way_to_another_tenants() -> None:
    cache = {"kind": "host-path"}
    made = job_of(spec_of(tenant="globex"), cache=cache)
    (message,) = refusals(made, cache=cache)
    assert "volume" in message


def test_warm_bases_are_mounted_to_read_only_and_where_the_settings_keep_some() -> None:
    made = job_of(spec_of(gpus=1), **WARM)
    (message,) = refusals(made, cache=WARM["cache"])
    assert "volume" in message
    for kind in ("containers", "initContainers"):
        changed = copy.deepcopy(made)
        (mount,) = [
            each for each in changed["spec"]["template"]["spec"][kind][0]["volumeMounts"] if each.get("readOnly")
        ]
        del mount["readOnly"]
        (message,) = refusals(changed, **WARM)
        assert "volume" in message


def test_the_policy_holds_in_every_tenants_namespace_and_lets_nothing_in_that_it_cannot_judge() -> None:
    for each in (POLICY, BINDING):
        kubernetes_validate.validate(each, "1.36", strict=True)
    spec = POLICY["spec"]
    (namespace,) = [each for each in tenant_objects(settings_of(), "acme") if each["kind"] == "Namespace"]
    (wanted,) = spec["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert (wanted["key"], wanted["operator"]) == (TENANT, "Exists")
    assert TENANT in namespace["metadata"]["labels"]
    assert spec["failurePolicy"] == "Fail"
    assert BINDING["spec"]["policyName"] == POLICY["metadata"]["name"]
    assert BINDING["spec"]["paramRef"]["parameterNotFoundAction"] == "Deny"
    assert "namespace" not in BINDING["spec"]["paramRef"]
    assert BINDING["spec"]["validationActions"] == ["Deny"]
    assert IMAGE.startswith("registry.example/ft@")
