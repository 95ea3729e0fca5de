"""What pods of evaluations have beside others: a way to judges, their keys by reference, and what a sandbox needs."""

import json
from typing import Any

import kubernetes_validate
import pytest
from pydantic import ValidationError

from ft_assets.workers.suites.kinds.sandbox import ON, SWITCH
from ft_resources.kubernetes import names
from ft_resources.kubernetes.egress import JudgeReach
from ft_resources.kubernetes.job_plan import plan_pod
from ft_resources.kubernetes.manifests import Manifest, to_k8s
from ft_resources.kubernetes.platform import tenant_objects
from ft_resources.work import WorkSpec
from tests.resources.kubernetes.specs import settings_of, spec_of

VERSION = "1.34"
PRIVATE = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16"]
RUN_CODE = {"seccomp_profile": "profiles/ft-sandbox.json", "apparmor_profile": "ft-sandbox", "runtime_class": "kata"}


def judged(*wanted: str | None, allowed: tuple[str, ...] = (), asset: str = "eval_report") -> WorkSpec:
    """An evaluation whose recipe's judges want these keys, where the platform allows those."""
    models = [{"endpoint": "https://judge.example.com/v1", "model": "m", "key": key} for key in wanted]
    hosts = [{"host": "judge.example.com", "keys": list(allowed), "private": False}]
    spec = spec_of(asset=asset, runtime={"judge_hosts": hosts, "processes": 1})
    return spec.model_copy(update={"params": {"evaluation": {"judge": {"models": models}}}})


def template(spec: WorkSpec, **settings: Any) -> Manifest:
    job = to_k8s(plan_pod(spec, settings_of(**settings)))[0]
    kubernetes_validate.validate(job, VERSION, strict=True)
    return job["spec"]["template"]


def keys(container: Manifest) -> dict[str, Manifest]:
    return {
        each["name"]: each["valueFrom"]["secretKeyRef"]
        for each in container["env"]
        if "secretKeyRef" in each.get("valueFrom", {})
    }


def policies(reach: JudgeReach | None, **settings: Any) -> dict[str, Manifest]:
    objects = tenant_objects(settings_of(**settings), "acme", reach)
    for manifest in objects:
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    return {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "NetworkPolicy"}


def test_a_key_comes_from_the_tenants_secret_and_only_if_wanted_and_allowed() -> None:
    spec = judged("FT_JUDGE_KEY_A", "FT_JUDGE_KEY_B", None, allowed=("FT_JUDGE_KEY_A", "FT_JUDGE_KEY_C"))
    pod = template(spec, judges={"secret": "keys"})["spec"]
    (worker,), (fetch,) = pod["containers"], pod["initContainers"]
    assert keys(worker) == {"FT_JUDGE_KEY_A": {"name": "keys", "key": "FT_JUDGE_KEY_A", "optional": True}}
    # What fetches inputs asks nobody.
    assert keys(fetch) == {}


def test_specs_and_pods_of_other_work_know_no_keys_and_have_no_way_to_judges() -> None:
    spec = spec_of()
    assert "FT_JUDGE" not in json.dumps(template(spec))
    assert names.JUDGES not in template(spec)["metadata"]["labels"]
    plain = judged("FT_JUDGE_KEY_A", allowed=())
    nobody = plain.model_copy(update={"runtime": {"judge_hosts": []}})
    assert names.JUDGES not in template(nobody)["metadata"]["labels"]


def test_pods_that_ask_judges_are_those_that_the_policy_lets_out() -> None:
    policy = policies(JudgeReach(public=True))["ft-judges"]
    labels = template(judged())["metadata"]["labels"]
    assert policy["policyTypes"] == ["Egress"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert not policy["podSelector"]["matchLabels"].items() <= template(spec_of())["metadata"]["labels"].items()
    (rule,) = policy["egress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 443}]
    assert rule["to"] == [{"ipBlock": {"cidr": "0.0.0.0/0", "except": PRIVATE}}]


def test_a_tenant_without_judges_has_no_such_policy() -> None:
    for reach in (None, JudgeReach()):
        assert set(policies(reach)) == {"ft-default-deny", "ft-store"}
    # Private hosts, and no word of where they are: nothing is opened for them.
    assert "ft-judges" not in policies(JudgeReach(private=True))


def test_private_judges_are_reached_by_their_own_ways_and_only_by_tenants_that_have_some() -> None:
    service = {"namespace": "models", "pod_labels": {"app": "judge"}, "port": 8000}
    settings = {"judges": {"services": [service], "private_egress": [{"cidr": "10.1.2.3/32", "except_cidrs": []}]}}
    (public,) = policies(JudgeReach(public=True), **settings)["ft-judges"]["egress"]
    assert public["to"][0]["ipBlock"]["except"] == PRIVATE
    address, pods = policies(JudgeReach(private=True), **settings)["ft-judges"]["egress"]
    assert address["to"] == [{"ipBlock": {"cidr": "10.1.2.3/32"}}]
    assert pods["ports"] == [{"protocol": "TCP", "port": 8000}]
    (peer,) = pods["to"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "models"}
    assert peer["podSelector"]["matchLabels"] == {"app": "judge"}


@pytest.mark.parametrize("asset", ["eval_report", "baseline_report"])
def test_evaluations_may_run_programs_where_the_platform_says_how_they_are_contained(asset: str) -> None:
    pod = template(spec_of(asset=asset), run_code=RUN_CODE)["spec"]
    assert pod["runtimeClassName"] == "kata"
    (worker,), (fetch,) = pod["containers"], pod["initContainers"]
    assert {"name": SWITCH, "value": ON} in worker["env"]
    assert worker["securityContext"]["seccompProfile"] == {
        "type": "Localhost", "localhostProfile": "profiles/ft-sandbox.json",
    }  # fmt: skip
    assert worker["securityContext"]["appArmorProfile"] == {"type": "Localhost", "localhostProfile": "ft-sandbox"}
    # Nothing else is given up, and only the worker gets it.
    for name in ("allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities"):
        assert worker["securityContext"][name] == fetch["securityContext"][name]
    assert not {"seccompProfile", "appArmorProfile"} & fetch["securityContext"].keys()
    assert SWITCH not in json.dumps(fetch)
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_no_other_pod_gets_what_a_sandbox_needs_and_none_by_default() -> None:
    for pod in (template(spec_of(), run_code=RUN_CODE)["spec"], template(spec_of(asset="eval_report"))["spec"]):
        assert SWITCH not in json.dumps(pod)
        assert "Localhost" not in json.dumps(pod)
        assert "runtimeClassName" not in pod


@pytest.mark.parametrize("profile", ["/etc/passwd", "../x.json", "a/../b.json", "a//b", ""])
def test_a_profile_is_named_below_the_kubelets_folder(profile: str) -> None:
    with pytest.raises(ValidationError):
        settings_of(run_code={"seccomp_profile": profile})


def test_code_without_any_profile_or_class_is_refused_as_no_runtime_lets_it_be_contained() -> None:
    with pytest.raises(ValidationError, match="forbids namespaces"):
        settings_of(run_code={"apparmor_profile": "ft-sandbox"})
