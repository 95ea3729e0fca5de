"""Where nodes lie and who makes them: what is asked of Kueue, and files that contradict each other."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from ft_resources.errors import UserError
from ft_resources.kubernetes.allowed import allowed
from ft_resources.kubernetes.flavours import FlavoursFile, read_flavours, require_nodes
from ft_resources.kubernetes.from_dagster import FromDagster
from ft_resources.kubernetes.job_plan import plan_pod
from ft_resources.kubernetes.kueue import platform_queues
from ft_resources.kubernetes.manifests import job
from ft_resources.kubernetes.quota_plan import TierOfCluster
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.kubernetes.settings_file import read_settings
from ft_resources.kubernetes.shares import Share
from ft_resources.kubernetes.tolerated import require_possible
from tests.cluster.kueue_schemas import faults
from tests.resources.kubernetes.specs import IMAGE, settings_of, spec_of

RACK, HOST = "example.com/rack", "kubernetes.io/hostname"
PREFERRED, REQUIRED, ANYWHERE = (
    f"kueue.x-k8s.io/podset-{kind}-topology" for kind in ("preferred", "required", "unconstrained")
)
TIERS = [TierOfCluster(name="default", priority="batch", share=Share(), tenants=("acme",))]
PROVISIONING = {"class_name": "queued-provisioning.gke.io", "parameters": {"maxRunDurationSeconds": "604800"}}


def near(level: str = RACK, *, required: bool = False, **others: Any) -> KubernetesSettings:
    """A cluster whose H100 have a topology; ``others`` are further types."""
    h100 = {"node_selector": {"gpu": "h100"}, "topology": {"level": level, "required": required}}
    return settings_of(queue="ft-{tenant}", gpu_types={"H100": h100, **others})


def flavours(**changes: Any) -> FlavoursFile:
    h100 = {"name": "h100", "labels": {"gpu": "h100"}, "capacity": {"nvidia.com/gpu": "8"}, "topology": "racks"}
    cpu = {"name": "cpu", "labels": {}, "capacity": {"nvidia.com/gpu": "0"}}
    said = {"flavours": [h100 | changes, cpu], "topologies": {"racks": [RACK, HOST]}}
    return FlavoursFile.model_validate(said)


def notes(settings: KubernetesSettings, nodes: int, **resources: Any) -> dict[str, str]:
    """What a Job asks of Kueue about places."""
    spec = spec_of(runtime={"nodes": nodes}, **resources)
    found = job(plan_pod(spec, settings))["spec"]["template"]["metadata"]["annotations"]
    return {name: value for name, value in found.items() if "topology" in name}


def test_nodes_of_a_training_are_near_each_other_and_a_single_one_is_anywhere() -> None:
    h100 = {"gpus": 8, "gpu_type": "H100"}
    assert notes(near(), 2, **h100) == {PREFERRED: RACK}
    assert notes(near(required=True), 2, **h100) == {REQUIRED: RACK}
    assert notes(near(required=True), 1, **h100) == {ANYWHERE: "true"}, "Kueue gives its flavour to no other Job"


def test_work_without_gpus_asks_for_no_topology_because_its_flavour_has_none() -> None:
    assert notes(near(), 1) == {}


def test_gpus_of_any_type_have_a_topology_where_all_types_have_the_same() -> None:
    assert notes(near(), 2, gpus=8) == {PREFERRED: RACK}
    assert notes(near(L4={}), 2, gpus=8) == {}


def test_without_a_queue_nobody_reads_a_topology() -> None:
    without = near().model_copy(update={"queue": None})
    assert notes(without, 2, gpus=8, gpu_type="H100") == {}


def test_an_elastic_training_counts_on_no_flavour_that_its_topology_keeps_from_it() -> None:
    kinds = made(flavours())["ResourceFlavor"]
    names = [each["metadata"]["name"] for each in kinds]
    plans = [plan_pod(spec_of(gpus=gpus, gpu_type="H100" if gpus else None), near()) for gpus in (8, 0)]
    assert [allowed(plan, names, kinds) for plan in plans] == [["h100"], ["cpu"]]


def made(file: FlavoursFile) -> dict[str, list[dict[str, Any]]]:
    """Kueue's objects by kind; each is one that its API takes."""
    found: dict[str, list[dict[str, Any]]] = {}
    for each in platform_queues(near(), file.flavours, TIERS, topologies=file.topologies):
        assert faults(each) == []
        found.setdefault(each["kind"], []).append(each)
    return found


def test_a_topology_has_its_levels_from_the_widest_to_the_narrowest() -> None:
    found = made(flavours())
    assert [each["spec"] for each in found["Topology"]] == [{"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOST}]}]
    assert {each["metadata"]["name"]: each["spec"].get("topologyName") for each in found["ResourceFlavor"]} == {
        "h100": "racks",
        "cpu": None,
    }
    assert "AdmissionCheck" not in found
    assert "admissionChecksStrategy" not in found["ClusterQueue"][0]["spec"]


def test_a_flavour_whose_nodes_are_made_has_a_check_of_its_own_and_no_other_waits_for_it() -> None:
    found = made(flavours(provisioning=PROVISIONING))
    (config,), (check,), (queue,) = (
        found[kind] for kind in ("ProvisioningRequestConfig", "AdmissionCheck", "ClusterQueue")
    )
    assert config["spec"]["provisioningClassName"] == PROVISIONING["class_name"]
    assert config["spec"]["parameters"] == PROVISIONING["parameters"]
    assert check["spec"] == {
        "controllerName": "kueue.x-k8s.io/provisioning-request",
        "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": config["kind"], "name": config["metadata"]["name"]},
    }
    assert queue["spec"]["admissionChecksStrategy"] == {
        "admissionChecks": [{"name": check["metadata"]["name"], "onFlavors": ["h100"]}]
    }


def test_kueue_asks_for_nodes_for_as_long_as_work_may_wait() -> None:
    (config,) = made(flavours(provisioning=PROVISIONING))["ProvisioningRequestConfig"]
    retries = config["spec"]["retryStrategy"]
    assert retries["backoffLimitCount"] * retries["backoffMaxSeconds"] >= near().queue_timeout_s


def test_nodes_that_are_made_for_a_job_are_not_looked_for(tmp_path: Path) -> None:
    (tmp_path / "nodes.json").write_text('{"items": []}')
    require_nodes(flavours(provisioning=PROVISIONING).flavours, tmp_path / "nodes.json")
    with pytest.raises(UserError, match="h100 promises"):
        require_nodes(flavours().flavours, tmp_path / "nodes.json")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"topologies": {"racks": [RACK, RACK]}}, "each label once"),
        ({"topologies": {"racks": [HOST, RACK]}}, f"{HOST} last"),
        ({"topologies": {"rack": [RACK]}}, "did you mean 'rack'"),
        ({"topologies": {"racks": []}}, "should not be empty"),
        ({"topologies": {"racks": ["no label"]}}, "topologies.racks"),
    ],
)
def test_topologies_that_kueue_would_refuse_are_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    file = tmp_path / "flavours.yaml"
    file.write_text(yaml.safe_dump(flavours().model_dump(exclude_none=True) | changes))
    with pytest.raises(UserError) as refused:
        read_flavours(file)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "changes", "said"),
    [
        (near(), {}, ""),
        (near(HOST), {}, ""),
        (near("example.com/block"), {}, "none asks for a level of its topology racks"),
        (near(), {"topology": None}, "all ask for example.com/rack, and it has no topology"),
        (near(L4={}), {"topology": None, "labels": {"gpu": "l4"}}, ""),
    ],
)
def test_a_flavour_that_no_job_could_have_for_its_topology_is_refused(
    settings: KubernetesSettings, changes: dict[str, Any], said: str
) -> None:
    if not said:
        require_possible(settings, flavours(**changes))
        return
    with pytest.raises(UserError, match=said):
        require_possible(settings, flavours(**changes))


def test_a_taint_that_only_dagsters_configuration_tolerates_keeps_out_no_job_that_has_it() -> None:
    tainted, bounds = flavours(taints=[{"key": "team"}]), {"tolerations": [{"key": "team"}]}
    with pytest.raises(UserError, match="none tolerates its taint team"):
        require_possible(near(), tainted)
    settings = near().model_copy(update={"from_dagster": FromDagster.model_validate(bounds)})
    require_possible(settings, tainted)
    config = {"pod_spec_config": {"tolerations": [{"key": "team", "operator": "Exists", "effect": "NoSchedule"}]}}
    specs = [{"metadata": {"name": "h100"}, "spec": {"nodeTaints": [{"key": "team", "effect": "NoSchedule"}]}}]
    with_it, without = (plan_pod(spec_of(pod=pod), settings) for pod in (config, {}))
    assert [allowed(plan, ["h100"], specs) for plan in (with_it, without)] == [["h100"], []]


def test_nodes_without_gpus_have_no_topology() -> None:
    with pytest.raises(UserError) as refused:
        require_possible(near(), flavours(capacity={"nvidia.com/gpu": "0"}))
    assert "Nodes without GPUs have no topology" in refused.value.remedy


def test_topology_where_earlier_settings_had_it_is_refused_with_its_new_place(tmp_path: Path) -> None:
    file = tmp_path / "kubernetes.yaml"
    file.write_text(yaml.safe_dump({"image": IMAGE, "topology": RACK}))
    with pytest.raises(UserError, match=r"topology: unknown key; did you mean 'gpu_types\..*\.topology: \{level: …\}'"):
        read_settings(str(file))


def test_only_a_flavour_whose_nodes_are_made_needs_a_short_name() -> None:
    long = "h100." + "x" * 50
    assert flavours(name=long).flavours[0].name == long
    for name in (long, "h100.made", "x" * 49):
        with pytest.raises(ValueError, match="no dots and at most 48 characters"):
            flavours(name=name, provisioning=PROVISIONING)
