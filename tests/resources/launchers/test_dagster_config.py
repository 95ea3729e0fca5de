"""What a Dagster operator configures reaches the pods of workers; what a tenant asks for does not."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster_k8s.job import UserDefinedDagsterK8sConfig

from ft_assets.graph.glue import run_work
from ft_resources.attempts import attempts_at
from ft_resources.dagster_pods import pod_of_step
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.errors import UserError
from ft_resources.kubernetes.dagster_pod import honoured
from ft_resources.kubernetes.from_dagster import FromDagster
from ft_resources.kubernetes.job_plan import plan_pod
from ft_resources.kubernetes.pod import WORKER
from tests.dagster_private import ReconstructableRepository
from tests.k8s.chart import NO_CLUSTER, instance_config, values
from tests.resources.kubernetes.specs import settings_of, spec_of
from tests.resources.launchers.conftest import OnCluster

KEY = "dagster-k8s/config"
BOUNDS: dict[str, Any] = {
    "environment": ["HTTPS_PROXY"],
    "secrets": ["team-token"],
    "config_maps": ["ca"],
    "node_labels": {"pool": ["blue"], "zone": ["a", "b"]},
    "tolerations": [{"key": "dedicated", "value": "ml"}],
}
INSTANCE: dict[str, Any] = {
    "labels": {"team": "ml", "cost": "1"},
    "env_vars": ["HTTPS_PROXY=http://proxy:3128", "DAGSTER_PASSWORD=theirs"],
    "run_k8s_config": {"pod_spec_config": {"nodeSelector": {"pool": "blue", "runs": "here"}}},
}
JOB: dict[str, Any] = {
    "container_config": {"resources": {"requests": {"cpu": "200m"}, "limits": {"memory": "3Gi"}}},
    "pod_template_spec_metadata": {"labels": {"cost": "2", "job": "j"}},
}
OP: dict[str, Any] = {
    "container_config": {
        "env": [
            {"name": "MODE", "value": "careful"},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "team-token", "key": "t"}}},
        ],
        "envFrom": [{"secretRef": {"name": "team-token"}}],
        "volumeMounts": [{"name": "ca", "mountPath": "/etc/ca", "readOnly": True}],
    },
    "pod_spec_config": {
        "volumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}],
        "nodeSelector": {"zone": "b"},
    },
    "pod_template_spec_metadata": {"labels": {"op": "o", "cost": "3"}},
}


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """One whose run launcher is dagster-k8s's, with the operator's additions to what our chart has."""
    launcher = instance_config(values())["run_launcher"]
    (tmp_path / "kubeconfig").write_text(json.dumps(NO_CLUSTER))
    launcher["config"] |= {"load_incluster_config": False, "kubeconfig_file": str(tmp_path / "kubeconfig")} | INSTANCE
    launcher["config"]["only_allow_user_defined_k8s_config_fields"] = {
        "pod_template_spec_metadata": {"labels": True},
        "job_metadata": {"labels": True},
    }
    with dg.instance_for_test(overrides={"run_launcher": launcher}) as made:
        yield made


@pytest.mark.cluster
def test_a_workers_pod_has_what_the_instance_the_job_and_the_op_say(
    on_cluster: OnCluster, instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FT_TRACKING", "off")
    monkeypatch.setenv("FT_TENANTS", str(tmp_path / "none.yaml"))
    taint = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
    on_cluster.access.machines.add_node("blue-b", labels={"pool": "blue", "zone": "b"}, taints=[taint])
    secret = {"metadata": {"name": "team-token"}, "data": {"t": "eA=="}}
    on_cluster.access.core.create_namespaced_secret(on_cluster.access.namespace, secret)
    launcher = on_cluster.launcher(from_dagster=BOUNDS)
    monkeypatch.setattr(LauncherResource, "launcher", property(lambda self: launcher))
    wanted = on_cluster.work()

    @dg.asset(op_tags={KEY: OP})
    def made(context: dg.AssetExecutionContext, store: StoreResource, launcher: LauncherResource) -> None:
        run_work(context, store, launcher, wanted)

    resources = {"store": StoreResource(url=on_cluster.store.url), "launcher": LauncherResource()}
    job = dg.define_asset_job("make", [made], tags={KEY: JOB})
    asked = dg.Definitions([made], jobs=[job], resources=resources).resolve_job_def("make")
    theirs = json.dumps({"pod_spec_config": {"nodeSelector": {"zone": "a"}, "hostNetwork": True}})
    assert asked.execute_in_process(instance=instance, tags={KEY: theirs}).success

    (attempt,) = attempts_at(on_cluster.store, wanted.address)
    found = on_cluster.access.batch.read_namespaced_job(attempt.launch()["job"], on_cluster.access.namespace)
    pod = found.spec.template.spec
    (worker,) = pod.containers
    assert worker.name == WORKER
    named = {each.name: each.value for each in worker.env}
    assert (named["MODE"], named["HTTPS_PROXY"]) == ("careful", "http://proxy:3128")
    assert "DAGSTER_PASSWORD" not in named, "the run launcher's variables are the control plane's"
    assert {each.secret_ref.name for each in worker.env_from} == {"team-token"}, "and so are its Secrets"
    assert pod.node_selector == {"pool": "blue", "zone": "b"}
    assert ("dedicated", "ml") in {(each.key, each.value) for each in pod.tolerations}
    labels = found.spec.template.metadata.labels
    assert [labels[name] for name in ("team", "job", "op", "cost")] == ["ml", "j", "o", "3"]
    assert {each.name for each in pod.volumes} == {"scratch", "tmp", "shared-memory", "cache", "ca"}
    assert {each.mount_path for each in worker.volume_mounts} >= {"/etc/ca", "/scratch"}
    assert worker.resources.limits["memory"] == "3Gi"
    assert worker.resources.requests == {"cpu": "200m", "memory": "3Gi"}
    # What isolates it is as without.
    assert (pod.host_network, pod.service_account_name, pod.automount_service_account_token) == (None, "default", False)
    assert worker.security_context.read_only_root_filesystem
    assert pod.security_context.run_as_non_root


def step(
    instance: dg.DagsterInstance, *, location: dict[str, Any], job: Any = None, op: Any = None, run: Any = None
) -> Any:
    """The context of a step, as far as its pod depends on it."""
    origin = ReconstructableRepository.for_module("ft_assets.definitions", "defs", container_context=location)
    as_tags = {name: {KEY: json.dumps(config)} if config else {} for name, config in (("job", job), ("op", op))}
    return SimpleNamespace(
        instance=instance,
        run=dg.DagsterRun(
            job_name="j",
            tags={KEY: json.dumps(run)} if run else as_tags["job"],
            job_code_origin=origin.get_reconstructable_job("prepare_dataset").get_python_origin(),
        ),
        job_def=SimpleNamespace(run_tags=as_tags["job"]),
        op_execution_context=SimpleNamespace(op=SimpleNamespace(tags=as_tags["op"])),
        log=SimpleNamespace(warning=lambda text: None),
    )


def test_of_two_sources_the_nearer_to_the_work_wins(instance: dg.DagsterInstance) -> None:
    pods = SimpleNamespace(honoured=lambda given, work: honoured(given, work, FromDagster.model_validate(BOUNDS)))
    label = "pod_template_spec_metadata"
    place = {"k8s": {"labels": {"cost": "location", "location": "l"}}}
    asked = [
        ({}, "1"),
        ({"location": place}, "location"),
        ({"location": place, "job": {label: {"labels": {"cost": "job"}}}}, "job"),
        ({"job": {label: {"labels": {"cost": "job"}}}, "op": {label: {"labels": {"cost": "op"}}}}, "op"),
        ({"op": {label: {"labels": {"cost": "op"}}}, "run": {label: {"labels": {"cost": "tenant"}}}}, "op"),
    ]
    for sources, cost in asked:
        found = pod_of_step(step(instance, **{"location": {}, **sources}), pods)
        assert found[label]["labels"]["cost"] == cost
        assert found[label]["labels"]["team"] == "ml"


def container(**fields: Any) -> dict[str, Any]:
    return {"container_config": fields}


def pod(**fields: Any) -> dict[str, Any]:
    return {"pod_spec_config": fields}


def mounted(path: str, name: str = "ca") -> dict[str, Any]:
    volumes = [{"name": "ca", "configMap": {"name": "ca"}}]
    return {**container(volumeMounts=[{"name": name, "mountPath": path}]), **pod(volumes=volumes)}


def variable(source: dict[str, Any]) -> dict[str, Any]:
    return container(env=[{"name": "X", "valueFrom": source}])


REFUSED = [
    *(
        (pod(**{field: value}), f"pod_spec_config.{name}")
        for field, value, name in (
            ("serviceAccountName", "admin", "service_account_name"),
            ("automountServiceAccountToken", True, "automount_service_account_token"),
            ("nodeName", "node-1", "node_name"),
            ("hostNetwork", True, "host_network"),
            ("hostPID", True, "host_pid"),
            ("securityContext", {"runAsUser": 0}, "security_context"),
            ("runtimeClassName", "runc", "runtime_class_name"),
            ("priorityClassName", "system-node-critical", "priority_class_name"),
            ("schedulerName", "other", "scheduler_name"),
            ("affinity", {}, "affinity"),
            ("containers", [{"name": "other"}], "containers"),
            ("initContainers", [{"name": "other"}], "init_containers"),
            ("imagePullSecrets", [{"name": "x"}], "image_pull_secrets"),
        )
    ),
    *(
        (container(**{field: value}), f"container_config.{name}")
        for field, value, name in (
            ("image", "evil.example/x", "image"),
            ("command", ["sh"], "command"),
            ("args", ["-c"], "args"),
            ("securityContext", {"privileged": True}, "security_context"),
            ("lifecycle", {}, "lifecycle"),
            ("livenessProbe", {}, "liveness_probe"),
        )
    ),
    ({"job_spec_config": {"backoffLimit": 9}}, "job_spec_config.backoff_limit"),
    ({"job_metadata": {"annotations": {"x": "y"}}}, "job_metadata.annotations"),
    ({"job_metadata": {"labels": {"kueue.x-k8s.io/queue-name": "x"}}}, "kueue.x-k8s.io/queue-name"),
    ({"pod_template_spec_metadata": {"labels": {"ft.platform/judges": "true"}}}, "ft.platform/judges"),
    ({"pod_template_spec_metadata": {"annotations": {"x": "y"}}}, "pod_template_spec_metadata.annotations"),
    (pod(volumes=[{"name": "x", "hostPath": {"path": "/"}}]), "pod_spec_config.volumes: x"),
    (pod(volumes=[{"name": "x", "secret": {"secretName": "ft-judge-keys"}}]), "pod_spec_config.volumes: x"),
    (pod(volumes=[{"name": "x", "persistentVolumeClaim": {"claimName": "x"}}]), "pod_spec_config.volumes: x"),
    (pod(volumes=[{"name": "x", "projected": {"sources": []}}]), "pod_spec_config.volumes: x"),
    (pod(volumes=[{"name": "x", "emptyDir": {}, "hostPath": {"path": "/"}}]), "pod_spec_config.volumes: x"),
    (pod(volumes=[{"name": "warm", "emptyDir": {}}]), "pod_spec_config.volumes: warm"),
    *(
        (mounted(path), "container_config.volume_mounts: ca")
        for path in (
            "/",
            "/cache",
            "/cache/files",
            "/dev",
            "/var/run/secrets",
            "/scratch/../cache",
            "etc",
        )
    ),
    (mounted("/data", "warm"), "container_config.volume_mounts: warm"),
    (pod(tolerations=[{"operator": "Exists"}]), "pod_spec_config.tolerations: operator"),
    (pod(tolerations=[{"key": "dedicated", "operator": "Exists"}]), "pod_spec_config.tolerations: dedicated"),
    (pod(nodeSelector={"zone": "c"}), "pod_spec_config.node_selector: zone"),
    (pod(nodeSelector={"kubernetes.io/hostname": "node-1"}), "kubernetes.io/hostname"),
    *(
        (container(env=[{"name": name, "value": "x"}]), f"container_config.env: {name}")
        for name in (
            "FT_SESSION_POLICY",
            "AWS_ROLE_ARN",
            "LD_PRELOAD",
            "PYTHONPATH",
        )
    ),
    (variable({"secretKeyRef": {"name": "other", "key": "k"}}), "container_config.env: X"),
    (variable({"configMapKeyRef": {"name": "other", "key": "k"}}), "container_config.env: X"),
    (container(env=[{"value": "nameless"}]), "container_config.env: "),
    (pod(volumes=[{"emptyDir": {}}]), "pod_spec_config.volumes: empty_dir"),
    (container(envFrom=[{"secretRef": {"name": "ft-secrets"}}]), "container_config.env_from"),
    (container(resources={"limits": {"nvidia.com/gpu": "8"}}), "container_config.resources: limits.nvidia.com/gpu"),
    (container(resources={"requests": {"memory": "-1Gi"}}), "container_config.resources: requests.memory"),
]


@pytest.mark.parametrize(("config", "named"), REFUSED, ids=[named for _, named in REFUSED])
def test_what_isolates_a_worker_is_refused_by_name_and_is_not_taken_from_the_instance(
    config: dict[str, Any], named: str
) -> None:
    bounds, asked = FromDagster.model_validate(BOUNDS), UserDefinedDagsterK8sConfig.from_dict(config).to_dict()
    with pytest.raises(UserError, match="may not have") as caught:
        honoured({}, asked, bounds)
    assert named in caught.value.what
    assert not set(honoured(asked, {}, bounds)) - {"pod_spec_config"}
    assert set(honoured(asked, {}, bounds).get("pod_spec_config", {})) <= {"volumes"}, "one that nothing mounts"


def test_a_spec_that_somebody_wrote_is_held_to_the_same_bounds() -> None:
    asked = UserDefinedDagsterK8sConfig.from_dict(pod(hostNetwork=True)).to_dict()
    with pytest.raises(UserError, match=r"pod_spec_config\.host_network"):
        plan_pod(spec_of(pod=asked), settings_of())
