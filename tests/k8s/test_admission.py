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
OTHER = f"registry.example/other@sha256:{'b' * 64}"
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
        ({"image": OTHER}, {"image_repositories": ["registry.example/other"]}),
        ({"asset": "dataset"}, {"images": {"dataset": OTHER}}),
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


@pytest.mark.parametrize(
    ("change", "said"),
    [
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
    made = copy.deepcopy(job_of(spec_of(), identity=IDENTITY))
    change(made)
    (message,) = refusals(made, identity=IDENTITY)
    assert said in message


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
