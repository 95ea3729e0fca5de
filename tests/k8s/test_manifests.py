"""What an administrator applies: manifests that the API takes, rights that are as narrow as the docs say."""

import json
import re
from pathlib import Path
from typing import Any

import dagster as dg
import kubernetes_validate
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ft_assets.cli.main import app
from ft_assets.settings.tenants import load_tenants
from ft_resources.errors import UserError
from ft_resources.kubernetes.dagster_pod import honoured
from ft_resources.kubernetes.flavours import read_flavours
from ft_resources.kubernetes.from_dagster import FromDagster
from ft_resources.kubernetes.job_plan import plan_pod
from ft_resources.kubernetes.platform import platform_objects
from ft_resources.kubernetes.s3_policy import role_policy, session_policy
from ft_resources.kubernetes.settings_file import read_settings
from ft_resources.outcomes import STOP_GRACE_S
from ft_resources.store import Store
from ft_resources.store_layout import Layout
from tests.k8s.chart import K8S, KEYS, NO_CLUSTER, at, instance_config, values
from tests.resources.kubernetes.iam import may
from tests.resources.kubernetes.specs import settings_of, spec_of
from tests.s3_server import s3_server, use_bucket

BASE = K8S / "kustomize" / "base"
VERSION = "1.36"


def base_objects() -> list[dict[str, Any]]:
    files = yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]
    return [each for file in files for each in yaml.safe_load_all((BASE / file).read_text())]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_KUBERNETES", str(BASE / "kubernetes.yaml"))
    monkeypatch.setenv("FT_TENANTS", str(BASE / "tenants.yaml"))


def printed(*arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(app, ["cluster", "manifests", *arguments])
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


def test_every_file_of_the_base_is_listed() -> None:
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text())
    generated = {name for each in listed["configMapGenerator"] for name in each.get("files", []) + each.get("envs", [])}
    there = {file.name for file in BASE.iterdir()} - {"kustomization.yaml", "flavours.yaml"}
    assert there == {*listed["resources"], *generated}


def test_the_example_settings_are_ones_that_we_read(example: None) -> None:
    assert read_settings().queue == "ft-{tenant}"
    assert load_tenants().tier_of("acme").max_wait_minutes == 5
    assert [each.name for each in read_flavours(BASE / "flavours.yaml").flavours] == [
        "h100-on-demand",
        "h100-spot",
        "cpu",
    ]


def test_printed_manifests_are_valid_and_whole_for_each_tenant(example: None) -> None:
    found = printed("--flavours", str(BASE / "flavours.yaml"))
    for manifest in found:
        if "kueue" not in manifest["apiVersion"]:
            kubernetes_validate.validate(manifest, VERSION, strict=True)
    kinds = [(each["kind"], each["metadata"].get("namespace", each["metadata"]["name"])) for each in found]
    for tenant in ("acme", "globex", "shared"):
        for kind in ("Namespace", "ServiceAccount", "RoleBinding", "ClusterQueue", "LocalQueue"):
            assert (kind, f"ft-{tenant}") in kinds
    assert sum(kind == "ResourceFlavor" for kind, _ in kinds) == 3


def test_one_tenant_can_be_printed_alone_and_an_unknown_one_is_refused(example: None) -> None:
    assert {each["metadata"].get("namespace", "ft-acme") for each in printed("acme")} == {"ft-acme"}
    result = CliRunner().invoke(app, ["cluster", "manifests", "acmee"])
    assert result.exit_code == 2
    assert "did you mean" in result.output or "acme" in result.output


def test_the_printed_policy_of_a_role_is_for_the_stores_layout_with_the_key_of_the_settings_and_of_a_bucket_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "arn:aws:kms:eu-central-1:123456789012:key/0123-abcd"
    settings = yaml.safe_load((BASE / "kubernetes.yaml").read_text())
    settings["identity"]["kms_key"] = key
    (tmp_path / "kubernetes.yaml").write_text(yaml.safe_dump(settings))
    monkeypatch.setenv("FT_KUBERNETES", str(tmp_path / "kubernetes.yaml"))
    with s3_server() as endpoint:
        for bucket, names in (("new", []), ("old", ["names/dataset/acme.x.v1.json"])):
            url = use_bucket(monkeypatch, endpoint, bucket)
            for name in names:
                Store(url).put(name, b"{}")
            monkeypatch.setenv("FT_STORE", url)
            result = CliRunner().invoke(app, ["cluster", "policy", "acme"])
            assert result.exit_code == 0, result.output
            layout = Layout.BESIDE if names else Layout.BELOW
            assert json.loads(result.stdout) == role_policy(url, layout, "acme", key)
    monkeypatch.setenv("FT_STORE", str(tmp_path))
    refused = CliRunner().invoke(app, ["cluster", "policy", "acme"])
    assert (refused.exit_code, "is not an S3 bucket" in refused.output) == (2, True)


@pytest.mark.parametrize(
    ("taint", "known"),
    [
        ({"key": "dedicated", "value": "x"}, False),
        ({"key": "nvidia.com/gpu", "value": "other"}, True),
        ({"key": "nvidia.com/gpu", "effect": "NoExecute"}, False),
        ({"key": "dedicated", "effect": "PreferNoSchedule"}, True),
    ],
)
def test_a_flavour_whose_taint_no_job_tolerates_is_refused_before_work_waits_for_it(
    example: None, tmp_path: Path, taint: dict[str, str], known: bool
) -> None:
    said = yaml.safe_load((BASE / "flavours.yaml").read_text())
    said["flavours"][0]["taints"] = [taint]
    (tmp_path / "flavours.yaml").write_text(yaml.safe_dump(said))
    result = CliRunner().invoke(app, ["cluster", "manifests", "--flavours", str(tmp_path / "flavours.yaml")])
    if known:
        assert result.exit_code == 0, result.output
    else:
        assert result.exit_code == 2
        assert f"none tolerates its taint {taint['key']}" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("more", "told"),
    [("{name: a, labels: {}, capacity: {cpu: '1'}}", "a is the name of several flavours"),
     ("{name: b, labels: {}, capacity: {cpu: '1'}, taints: [{key: x, effect: Noschedule}]}", "taints[0].effect")],
)  # fmt: skip
def test_flavours_that_kueue_would_refuse_are_refused_where_they_are_written(
    tmp_path: Path, more: str, told: str
) -> None:
    file = tmp_path / "flavours.yaml"
    file.write_text(f"flavours:\n- {{name: a, labels: {{}}, capacity: {{cpu: '1'}}}}\n- {more}\n")
    with pytest.raises(UserError) as refused:
        read_flavours(file)
    assert told in str(refused.value)


def test_flavours_that_count_different_things_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "flavours.yaml"
    file.write_text(
        'flavours:\n- {name: a, labels: {}, capacity: {cpu: "1"}}\n- {name: b, labels: {}, capacity: {memory: 1Gi}}\n'
    )
    with pytest.raises(Exception, match="has a capacity of"):
        read_flavours(file)


def test_the_control_plane_may_not_read_secrets_run_commands_or_give_rights() -> None:
    rules = [rule for each in base_objects() if each["kind"] in ("Role", "ClusterRole") for rule in each["rules"]]
    resources = {name for rule in rules for name in rule["resources"]}
    assert not resources & {"secrets", "pods/exec", "roles", "rolebindings", "clusterroles", "serviceaccounts", "*"}
    assert all("*" not in rule["verbs"] and "*" not in rule["apiGroups"] for rule in rules)


def test_rights_over_the_whole_cluster_are_to_list_jobs_and_what_kueue_has_of_all() -> None:
    roles = {each["metadata"]["name"]: each["rules"] for each in base_objects() if each["kind"] == "ClusterRole"}
    bound = [each["roleRef"]["name"] for each in base_objects() if each["kind"] == "ClusterRoleBinding"]
    assert bound == ["ft-orphans"]
    assert roles["ft-orphans"] == [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list"]},
        {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloadpriorityclasses"], "verbs": ["list"]},
        {
            "apiGroups": ["kueue.x-k8s.io"],
            "resources": ["clusterqueues", "cohorts", "resourceflavors"],
            "verbs": ["list"],
        },
    ]


def test_only_the_two_accounts_of_the_control_plane_are_bound_in_tenants_namespaces(example: None) -> None:
    bindings = [each for each in printed() if each["kind"] == "RoleBinding"]
    bound = {(each["roleRef"]["name"], subject["name"]) for each in bindings for subject in each["subjects"]}
    assert bound == {("ft-launcher", "ft-control-plane"), ("ft-api", "ft-api")}
    assert all(subject["namespace"] == "ft-system" for each in bindings for subject in each["subjects"])


def test_a_tenants_pods_have_no_way_to_the_api(example: None) -> None:
    """No token, no rights, and no route: private addresses, where the API is, are no part of what is allowed."""
    objects = printed("acme")
    (account,) = [each for each in objects if each["kind"] == "ServiceAccount"]
    assert account["automountServiceAccountToken"] is False
    bound = [subject for each in objects if each["kind"] == "RoleBinding" for subject in each["subjects"]]
    assert all(subject["namespace"] != "ft-acme" for subject in bound)
    policies = {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "NetworkPolicy"}
    assert policies["ft-default-deny"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for rule in policies["ft-store"]["egress"]:
        for peer in rule["to"]:
            if "ipBlock" in peer:
                assert {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"} <= set(peer["ipBlock"]["except"])
            else:
                assert peer["podSelector"]["matchLabels"] == {"k8s-app": "kube-dns"}


def test_only_tenants_that_may_ask_judges_get_a_way_to_them(
    example: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = yaml.safe_load((BASE / "tenants.yaml").read_text())
    said["judge_hosts"] = [{"host": "judge.example.com"}]
    said["tenants"]["globex"]["judge_hosts"] = []
    (tmp_path / "tenants.yaml").write_text(yaml.safe_dump(said))
    monkeypatch.setenv("FT_TENANTS", str(tmp_path / "tenants.yaml"))
    named = {each["metadata"]["namespace"] for each in printed() if each["metadata"]["name"] == "ft-judges"}
    assert named == {"ft-acme"}


def test_the_sandboxes_profile_forbids_nothing_that_the_sandbox_calls() -> None:
    profile = json.loads((K8S / "seccomp" / "ft-sandbox.json").read_text())
    assert profile["defaultAction"] == "SCMP_ACT_ALLOW"
    (rule,) = profile["syscalls"]
    assert rule["action"] == "SCMP_ACT_ERRNO"
    forbidden = set(rule["names"])
    assert rule["names"] == sorted(forbidden)
    source = (K8S.parent / "ft_assets" / "workers" / "suites" / "kinds" / "sandbox_process.py").read_text()
    called = set(re.findall(r"_libc\.([a-z0-9_]+)\(", source)) | {"pivot_root", "mount_setattr", "pidfd_send_signal"}
    assert {"unshare", "mount", "umount2", "prctl", "capset"} < called
    assert not called & forbidden
    assert {"bpf", "init_module", "kexec_load", "keyctl", "io_uring_setup", "setns"} <= forbidden


PARTS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,12}[a-z0-9])?", fullmatch=True)
PATHS = st.lists(st.from_regex(r"[a-z0-9._-]{1,12}", fullmatch=True), min_size=1, max_size=4).map("/".join)
ACTIONS = ("s3:GetObject", "s3:PutObject", "s3:DeleteObject")


@given(
    tenant=PARTS,
    other=PARTS,
    path=PATHS,
    action=st.sampled_from(ACTIONS),
    creates=st.booleans(),
    layout=st.sampled_from(Layout),
)
def test_no_tenant_reads_or_writes_below_anothers_prefix(
    tenant: str, other: str, path: str, action: str, creates: bool, layout: Layout
) -> None:
    if other in (tenant, "shared"):
        return
    role = json.dumps(role_policy("s3://bucket/ft", layout, tenant))
    assert not may(role, action, f"{other}/{path}", if_none_match=creates, layout=layout)
    assert may(role, "s3:GetObject", f"{tenant}/{path}", layout=layout)
    session = session_policy(spec_of(tenant=tenant, layout=layout))
    assert session is not None
    assert not may(session, action, f"{other}/{path}", if_none_match=creates, layout=layout)


def test_the_values_have_only_keys_that_the_chart_knows() -> None:
    found = values()
    for path, known in KEYS.items():
        assert set(at(found, path)) <= known, path


def test_the_cluster_tries_again_what_one_machine_does_and_no_more() -> None:
    """Dagster retries a run whatever it failed by unless told; a rejected candidate would be judged ten times more."""
    embedded = yaml.safe_load((K8S.parent / "dagster.yaml").read_text())
    found = instance_config(values())
    assert found["run_retries"] == embedded["run_retries"]
    assert found["run_retries"]["retry_on_asset_or_op_failure"] is False
    for name in ("telemetry", "nux"):
        assert found[name] == embedded[name]


def test_a_cancelled_run_lives_until_its_worker_has_saved() -> None:
    """Kubernetes gives a pod 30 seconds unless told; nobody would put on record how the work ended."""
    found = values()
    pod = instance_config(found)["run_launcher"]["config"]["run_k8s_config"]["pod_spec_config"]
    grace_s = pod["terminationGracePeriodSeconds"]
    assert grace_s >= 2 * STOP_GRACE_S
    assert found["dagsterDaemon"]["runMonitoring"]["cancelTimeoutSeconds"] >= grace_s


def test_a_runs_tag_cannot_change_its_pod(tmp_path: Path) -> None:
    from dagster_k8s import K8sRunLauncher
    from dagster_k8s.job import UserDefinedDagsterK8sConfig

    launcher = instance_config(values())["run_launcher"]
    (tmp_path / "kubeconfig").write_text(json.dumps(NO_CLUSTER))
    launcher["config"] |= {"load_incluster_config": False, "kubeconfig_file": str(tmp_path / "kubeconfig")}
    container = {"image": "evil.example/x", "command": ["sh"], "env": [{"name": "FT_STORE", "value": "s3://theirs"}]}
    tags: list[dict[str, Any]] = [{"container_config": {key: value}} for key, value in container.items()]
    tags += [{"pod_spec_config": {"service_account_name": "other"}}, {"job_spec_config": {"parallelism": 9}}]
    with dg.instance_for_test(overrides={"run_launcher": launcher}) as instance:
        assert isinstance(instance.run_launcher, K8sRunLauncher)
        pod = instance.run_launcher.get_container_context_for_run(dg.DagsterRun(job_name="train"))
        assert pod.run_k8s_config.pod_spec_config["service_account_name"] == "ft-control-plane"
        assert pod.namespace == "ft-system"
        nothing = UserDefinedDagsterK8sConfig().to_dict()
        assert honoured(pod.run_k8s_config.to_dict(), nothing, FromDagster()) == {}, "none of it is for workers"
        for tag in tags:
            run = dg.DagsterRun(job_name="train", tags={"dagster-k8s/config": json.dumps(tag)})
            with pytest.raises(Exception, match="violated the allowed list"):
                instance.run_launcher.get_container_context_for_run(run)


def test_neither_chart_nor_subchart_makes_accounts_or_gives_rights_of_its_own() -> None:
    found = values()
    for each in (found, found["dagster-user-deployments"]):
        assert each["rbacEnabled"] is False
        assert each["serviceAccount"]["create"] is False


def test_waiting_trainings_leave_places_for_curation_and_premium() -> None:
    queue = values()["dagsterDaemon"]["runCoordinator"]["config"]["queuedRunCoordinator"]
    limits = {(each["key"], each["value"]): each["limit"] for each in queue["tagConcurrencyLimits"]}
    trains = limits.pop(("ft/trains", "true"))
    assert trains < queue["maxConcurrentRuns"]
    tiers = {value: limit for (key, value), limit in limits.items() if key == "ft/trains-tier"}
    example = load_tenants(BASE / "tenants.yaml")
    assert set(tiers) == {"default", *example.tiers} - {"premium"}
    assert sum(tiers.values()) < trains


def test_every_container_is_non_root_with_a_read_only_root() -> None:
    found = values()
    launcher = instance_config(found)["run_launcher"]["config"]
    deployment = found["dagster-user-deployments"]["deployments"][0]
    for each in (deployment, found["dagsterDaemon"]):
        assert each["podSecurityContext"]["runAsNonRoot"]
        assert each["image"]["repository"].endswith("@sha256")
        assert len(each["image"]["tag"]) == 64
        assert each["securityContext"] == launcher["security_context"]
        assert each["volumeMounts"] == launcher["volume_mounts"]
    assert launcher["security_context"]["readOnlyRootFilesystem"]
    assert launcher["security_context"]["capabilities"] == {"drop": ["ALL"]}
    assert {mount["mountPath"] for mount in launcher["volume_mounts"]} == {"/tmp", "/etc/ft"}
    assert launcher["run_k8s_config"]["pod_spec_config"]["securityContext"]["runAsNonRoot"]


def test_values_and_kustomize_name_the_same_things() -> None:
    found, custom = values(), yaml.safe_load((BASE / "kustomization.yaml").read_text())
    names = {each["name"] for each in custom["configMapGenerator"]}
    launcher = instance_config(found)["run_launcher"]["config"]
    deployment = found["dagster-user-deployments"]["deployments"][0]
    assert set(launcher["env_config_maps"]) == {each["name"] for each in deployment["envConfigMaps"]} <= names
    assert set(launcher["env_secrets"]) == {each["name"] for each in deployment["envSecrets"]}
    assert {each["configMap"]["name"] for each in launcher["volumes"] if "configMap" in each} <= names
    accounts = {each["metadata"]["name"] for each in base_objects() if each["kind"] == "ServiceAccount"} - {"ft-api"}
    assert {found["global"]["serviceAccountName"], found["serviceAccount"]["name"]} == accounts
    environment = dict(line.split("=", 1) for line in (BASE / "environment.env").read_text().split())
    assert environment["FT_LAUNCHER"] == "kubernetes"
    assert {Path(environment[name]).name for name in ("FT_KUBERNETES", "FT_TENANTS")} <= {
        name for each in custom["configMapGenerator"] for name in each.get("files", [])
    }
    bucket = environment["FT_STORE"].removeprefix("s3://").split("/")[0]
    assert found["computeLogManager"]["config"]["s3ComputeLogManager"]["bucket"] == bucket


@pytest.mark.parametrize("name", ["lifecycle", "encryption", "policy"])
def test_the_buckets_rules_are_taken_by_s3(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import boto3

    rules = json.loads((K8S / "bucket" / f"{name}.json").read_text())
    with s3_server() as endpoint:
        use_bucket(monkeypatch, endpoint, "ft-example")
        s3 = boto3.client("s3", endpoint_url=endpoint)
        if name == "lifecycle":
            s3.put_bucket_lifecycle_configuration(Bucket="ft-example", LifecycleConfiguration=rules)
            assert len(s3.get_bucket_lifecycle_configuration(Bucket="ft-example")["Rules"]) == len(rules["Rules"])
        elif name == "encryption":
            s3.put_bucket_encryption(Bucket="ft-example", ServerSideEncryptionConfiguration=rules)
        else:
            s3.put_bucket_policy(Bucket="ft-example", Policy=json.dumps(rules))


def test_deleted_objects_are_gone_after_30_days_and_no_living_record_ever_expires() -> None:
    rules = json.loads((K8S / "bucket" / "lifecycle.json").read_text())["Rules"]
    (deleted,) = [rule for rule in rules if "NoncurrentVersionExpiration" in rule]
    assert deleted["NoncurrentVersionExpiration"] == {"NoncurrentDays": 30}
    for rule in rules:
        if "Days" in rule.get("Expiration", {}):
            assert rule["Filter"]["Prefix"].startswith("dagster/")


def test_platform_objects_without_flavours_have_no_queues(example: None) -> None:
    found = platform_objects(read_settings(), ["acme"])
    assert not [each for each in found if "kueue" in each["apiVersion"]]


@pytest.mark.parametrize(
    ("pattern", "tenant"), [("ft-{tenant}", "system"), ("{tenant}", "kube-system"), ("{tenant}", "default")]
)
def test_no_tenant_gets_the_platforms_or_the_clusters_own_namespace(pattern: str, tenant: str) -> None:
    settings = settings_of(namespace=pattern)
    with pytest.raises(UserError, match="belongs to the platform or the cluster"):
        platform_objects(settings, [tenant])
    with pytest.raises(UserError, match="belongs to the platform or the cluster"):
        plan_pod(spec_of(tenant=tenant), settings)
    assert settings.namespace_of("acme")
    with pytest.raises(UserError, match="belongs to the platform or the cluster"):
        platform_objects(settings_of(), ["apps"], namespace="ft-apps")


def test_rights_go_to_the_control_plane_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: None
) -> None:
    """Where nobody says a namespace, else accounts of another one than the control plane's may launch."""
    settings = {**yaml.safe_load((BASE / "kubernetes.yaml").read_text()), "control_namespace": "ft-apps"}
    (tmp_path / "kubernetes.yaml").write_text(yaml.safe_dump(settings))
    monkeypatch.setenv("FT_KUBERNETES", str(tmp_path / "kubernetes.yaml"))

    def bound(*arguments: str) -> set[str]:
        bindings = [each for each in printed("acme", *arguments) if each["kind"] == "RoleBinding"]
        return {subject["namespace"] for each in bindings for subject in each["subjects"]}

    assert bound() == {"ft-apps"}
    assert bound("--namespace", "ft-other") == {"ft-other"}
    with pytest.raises(UserError, match="belongs to the platform or the cluster"):
        platform_objects(read_settings(), ["apps"])
