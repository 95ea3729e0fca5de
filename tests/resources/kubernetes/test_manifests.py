"""What is sent to a cluster, checked without one."""

import json
import re
from pathlib import Path

import kubernetes_validate
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ft_resources.artifacts import Address
from ft_resources.errors import UserError
from ft_resources.kubernetes import names
from ft_resources.kubernetes.job_plan import plan_pod
from ft_resources.kubernetes.manifests import owned_by, to_k8s
from ft_resources.kubernetes.platform import tenant_objects
from ft_resources.outcomes import grace_s
from tests.resources.kubernetes.specs import IMAGE, settings_of, spec_of

IDENTITY = {"role_arn": "arn:aws:iam::123456789012:role/ft-{tenant}"}
H100 = {"H100": {"node_selector": {"gpu": "h100"}, "tolerations": [{"key": "nvidia.com/gpu"}]}}
IN_RACKS = {"H100": {**H100["H100"], "topology": {"level": "rack"}}}
VERSION = "1.34"


def job_of(spec, **changes):
    return to_k8s(plan_pod(spec, settings_of(**changes)))[0]


def pod_of(spec, **changes):
    return job_of(spec, **changes)["spec"]["template"]["spec"]


def env_of(container) -> dict[str, object]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


def containers_of(pod) -> list[dict]:
    return [*pod["initContainers"], *pod["containers"]]


@pytest.mark.parametrize(
    ("nodes", "cache", "changes"),
    [
        (1, "empty-dir", {}),
        (1, "host-path", {"secret": "store"}),
        (4, "ephemeral", {"identity": IDENTITY, "queue": "ft-{tenant}"}),
        (4, "host-path", {"identity": IDENTITY, "queue": "ft-{tenant}"}),
    ],
)
def test_what_is_sent_is_valid(nodes: int, cache: str, changes: dict) -> None:
    spec = spec_of(runtime={"nodes": nodes}, gpus=8, gpu_type="H100", spot=True)
    plan = plan_pod(spec, settings_of(cache={"kind": cache}, gpu_types=IN_RACKS, **changes))
    for manifest in to_k8s(plan):
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    for manifest in tenant_objects(settings_of(**changes), "acme"):
        kubernetes_validate.validate(manifest, VERSION, strict=True)


def test_one_job_has_the_request_of_the_recipe_and_the_pinned_image() -> None:
    worker = pod_of(spec_of(gpus=2, gpu_type="H100", memory_gib=300.0), gpu_types=H100)["containers"][0]
    assert worker["image"] == IMAGE
    assert worker["resources"]["limits"] == {"memory": "307200Mi", "nvidia.com/gpu": "2"}
    assert worker["resources"]["requests"]["nvidia.com/gpu"] == "2"


def test_gpus_of_any_type_tolerate_what_each_type_tolerates_and_name_no_nodes() -> None:
    types = H100 | {
        "L4": {"node_selector": {"gpu": "l4"}, "tolerations": [{"key": "nvidia.com/gpu"}, {"key": "small"}]},
        "MI300": {"resource": "amd.com/gpu", "tolerations": [{"key": "amd.com/gpu"}]},
    }
    pod = pod_of(spec_of(gpus=1), gpu_types=types)
    keys = [each["key"] for each in pod["tolerations"] if not each["key"].startswith("node.kubernetes.io/")]
    assert keys == ["nvidia.com/gpu", "small"]
    assert "nodeSelector" not in pod
    without = pod_of(spec_of(), gpu_types=types)
    assert all(each["key"].startswith("node.kubernetes.io/") for each in without["tolerations"])


def test_a_gpu_that_the_cluster_does_not_have_is_refused_with_those_it_has() -> None:
    with pytest.raises(UserError, match="no GPUs of type 'H200'; it has: H100"):
        plan_pod(spec_of(gpus=1, gpu_type="H200"), settings_of(gpu_types=H100))


@pytest.mark.parametrize("image", ["registry.example/ft:latest", "registry.example/ft", "ft@sha256:abc"])
def test_an_image_without_digest_is_refused_in_settings_and_recipes(image: str) -> None:
    with pytest.raises(ValidationError, match="digest"):
        settings_of(image=image)
    with pytest.raises(UserError, match="digest"):
        plan_pod(spec_of(image=image), settings_of())


def test_a_recipe_cannot_bring_an_image_from_anywhere() -> None:
    """It would run with the tenant's credentials, and a shared recipe with everybody's."""
    foreign = f"evil.example/ft@sha256:{'b' * 64}"
    with pytest.raises(UserError, match="not allowed"):
        plan_pod(spec_of(image=foreign), settings_of())
    assert plan_pod(spec_of(image=foreign), settings_of(image_repositories=["evil.example/ft"])).image == foreign


def test_a_kind_of_work_has_an_image_of_its_own_where_the_settings_name_one() -> None:
    exports, foreign = (f"registry.example/{name}@sha256:{'c' * 64}" for name in ("exports", "ft"))
    settings = settings_of(images={"quantized_model": exports})
    images = {
        asset: plan_pod(spec_of(asset=asset), settings).image
        for asset in ("quantized_model", "merged_model", "dataset")
    }
    assert images == {"quantized_model": exports, "merged_model": IMAGE, "dataset": IMAGE}
    containers = pod_of(spec_of(asset="quantized_model"), images={"quantized_model": exports})
    assert {each["image"] for kind in ("containers", "initContainers") for each in containers.get(kind, [])} == {
        exports
    }
    # A recipe's own image runs all of its work.
    assert plan_pod(spec_of(asset="quantized_model", image=foreign), settings).image == foreign


@pytest.mark.parametrize(
    ("images", "said"),
    [
        ({"quantised_model": IMAGE}, "should be a kind of work: did you mean 'quantized_model'"),
        ({"quantized_model": "registry.example/exports:latest"}, "digest"),
    ],
)
def test_an_image_of_no_kind_of_work_or_without_digest_is_refused(images: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        settings_of(images=images)


def test_no_container_may_do_more_than_it_needs() -> None:
    pod = pod_of(spec_of(), identity=IDENTITY)
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers_of(pod):
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
    tokens = [source for volume in pod["volumes"] for source in volume.get("projected", {}).get("sources", [])]
    assert [token["serviceAccountToken"]["audience"] for token in tokens] == ["sts.amazonaws.com"]


def test_what_a_worker_writes_to_is_a_volume_as_the_root_is_read_only() -> None:
    pod = pod_of(spec_of())
    for container in containers_of(pod):
        mounted = [mount["mountPath"] for mount in container["volumeMounts"]]
        for name in ("HOME", "TMPDIR", "FT_SCRATCH", "FT_CACHE"):
            assert any(str(env_of(container)[name]).startswith(path) for path in mounted)
    sizes = {volume["name"]: volume.get("emptyDir", {}).get("sizeLimit") for volume in pod["volumes"]}
    cache_mb = int(env_of(pod["containers"][0])["FT_CACHE_MB"])
    assert int(sizes["cache"].removesuffix("Mi")) == pytest.approx(1.5 * cache_mb)


def test_the_pod_is_given_as_long_as_its_save_may_take() -> None:
    assert pod_of(spec_of())["terminationGracePeriodSeconds"] > grace_s(0)
    large = spec_of(runtime={"predicted_memory_bytes": 50_000_000_000})
    assert pod_of(large)["terminationGracePeriodSeconds"] > grace_s(1000.0)
    slow = plan_pod(spec_of(), settings_of(), save_s=400.0)
    assert slow.grace_s > grace_s(400.0)
    assert plan_pod(spec_of(), settings_of(max_grace_s=200.0), save_s=400.0).grace_s <= 230


def test_kubernetes_never_tries_again_and_one_rank_takes_the_others_with_it() -> None:
    job = job_of(spec_of(runtime={"nodes": 3}))["spec"]
    assert (job["backoffLimit"], job["completions"], job["parallelism"]) == (0, 3, 3)
    assert job["template"]["spec"]["restartPolicy"] == "Never"
    assert [rule["action"] for rule in job["podFailurePolicy"]["rules"]] == ["FailJob", "FailJob"]


def test_several_nodes_find_the_first_by_name() -> None:
    manifests = to_k8s(plan_pod(spec_of(runtime={"nodes": 2}), settings_of()))
    job, service, policy = manifests
    environment = env_of(job["spec"]["template"]["spec"]["containers"][0])
    name = job["metadata"]["name"]
    assert environment["MASTER_ADDR"] == f"{name}-0.{name}.ft-acme.svc"
    assert "job-completion-index" in environment["NODE_RANK"]["fieldRef"]["fieldPath"]
    assert job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None"
    own = {names.JOB: name}
    assert service["spec"]["selector"] == own
    assert own.items() <= job["spec"]["template"]["metadata"]["labels"].items()
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": {"matchLabels": own}}]}]
    kept = owned_by(service, {"metadata": {"name": name, "uid": "u"}})
    assert kept["metadata"]["ownerReferences"][0]["uid"] == "u"


def test_with_a_queue_jobs_wait_suspended_and_without_one_they_start() -> None:
    queued = job_of(spec_of(priority="production"), queue="ft-{tenant}")
    assert queued["spec"]["suspend"] is True
    assert queued["metadata"]["labels"][names.QUEUE] == "ft-acme"
    assert queued["metadata"]["labels"][names.PRIORITY] == "ft-production"
    started = job_of(spec_of())
    assert started["spec"]["suspend"] is False
    assert names.QUEUE not in started["metadata"]["labels"]


def test_work_that_lost_spot_nodes_goes_on_on_demand() -> None:
    changes = {
        "spot_nodes": {"node_selector": {"capacity": "spot"}},
        "on_demand": {"node_selector": {"capacity": "on"}},
    }
    settings_ = settings_of(**changes, spot_losses=2)
    spec = spec_of(spot=True)
    seen = [plan_pod(spec, settings_, spot_losses=lost).node_selector["capacity"] for lost in range(4)]
    assert seen == ["spot", "spot", "on", "on"]


def test_names_come_from_the_attempt_alone() -> None:
    assert job_of(spec_of(gpus=1))["metadata"]["name"] == job_of(spec_of())["metadata"]["name"]
    assert job_of(spec_of(attempt=2))["metadata"]["name"] != job_of(spec_of())["metadata"]["name"]


@given(
    asset=st.from_regex(r"[a-z][a-z0-9_]{0,30}[a-z0-9]", fullmatch=True),
    fingerprint=st.from_regex(r"[0-9a-f]{64}", fullmatch=True),
    attempt=st.integers(1, 9999),
    index=st.integers(0, 63),
)
def test_a_name_is_one_that_dns_takes_also_as_a_hosts(asset: str, fingerprint: str, attempt: int, index: int) -> None:
    name = names.job_name(Address(tenant="t", asset=asset, fingerprint=fingerprint), attempt)
    assert len(f"{name}-{index}") <= 63
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name)


@given(tenant=st.from_regex(r"[a-z0-9][a-z0-9-]{0,38}[a-z0-9]", fullmatch=True))
def test_labels_of_any_tenant_are_valid(tenant: str) -> None:
    labels = names.job_labels(Address(tenant=tenant, asset="eval_report", fingerprint="f" * 64), 1)
    for value in labels.values():
        assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"namespace": "fine-tuning"}, "tenant"),
        ({"namespace": "Ft-{tenant}"}, "lower-case"),
        ({"namespace": "a-namespace-with-a-long-name-{tenant}"}, "63"),
        ({"identity": IDENTITY, "secret": "s"}, "alternatives"),
        ({"identity": {"role_arn": "arn:aws:iam::1:role/ft"}}, "tenant"),
        ({"quueue": "x"}, "Extra inputs"),
    ],
)
def test_settings_that_would_let_tenants_meet_or_mean_nothing_are_errors(changes: dict, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        settings_of(**changes)


def test_a_tenants_pods_are_denied_everything_but_names_and_the_store() -> None:
    objects = tenant_objects(settings_of(), "acme")
    policies = {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "NetworkPolicy"}
    deny = policies["ft-default-deny"]
    assert deny == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    ports = [port["port"] for rule in policies["ft-store"]["egress"] for port in rule["ports"]]
    assert sorted(ports) == [53, 53, 443]
    # The cluster's API and the metadata service are at private and link-local addresses.
    assert "169.254.0.0/16" in policies["ft-store"]["egress"][1]["to"][0]["ipBlock"]["except"]


def test_the_manifest_of_a_training_is_as_reviewed() -> None:
    """A change of the golden file is what a platform engineer has to look at."""
    spec = spec_of(runtime={"nodes": 2}, gpus=8, gpu_type="H100", spot=True)
    plan = plan_pod(spec, settings_of(identity=IDENTITY, queue="ft-{tenant}", gpu_types=IN_RACKS))
    golden = Path(__file__).with_name("training.json")
    assert to_k8s(plan) == json.loads(golden.read_text())
