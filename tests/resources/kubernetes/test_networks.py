"""What the pods of a training get to exchange gradients, and the nodes that they avoid."""

from typing import Any

import kubernetes_validate
import pytest
from pydantic import ValidationError

from ft_resources.errors import UserError
from ft_resources.kubernetes.job_plan import plan_pod
from ft_resources.kubernetes.manifests import to_k8s
from tests.resources.kubernetes.specs import settings_of, spec_of

VARIABLES = {"FI_PROVIDER": "efa", "NCCL_DEBUG": "WARN"}
EFA = {
    "resources": {"vpc.amazonaws.com/efa": 32},
    "hugepages_mib": 5120,
    "environment": VARIABLES,
}
TYPES = {"H100": {"network": EFA, "shared_memory_gib": 64.0}, "L4": {}}


def pod_of(nodes: int, gpus: int = 8, gpu_type: str | None = "H100", **asked: Any) -> dict[str, Any]:
    spec = spec_of(runtime={"nodes": nodes}, gpus=gpus, gpu_type=gpu_type, **asked)
    job, *_ = to_k8s(plan_pod(spec, settings_of(gpu_types=TYPES)))
    kubernetes_validate.validate(job, "1.36", strict=True)
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod


def env_of(container: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value") for each in container["env"]}


def test_pods_of_several_nodes_get_the_network_of_their_gpu_type() -> None:
    pod = pod_of(nodes=2)
    (worker,), (fetch,) = pod["containers"], pod["initContainers"]
    for kind in ("requests", "limits"):
        asked = worker["resources"][kind]
        assert (asked["vpc.amazonaws.com/efa"], asked["hugepages-2Mi"]) == ("32", "5120Mi")
        assert "vpc.amazonaws.com/efa" not in fetch["resources"][kind]
    assert env_of(worker) | VARIABLES == env_of(worker)


def test_one_node_or_another_type_gets_none_of_it() -> None:
    for pod in (pod_of(nodes=1), pod_of(nodes=2, gpu_type="L4"), pod_of(nodes=1, gpu_type=None)):
        (worker,) = pod["containers"]
        assert worker["resources"]["limits"].keys() == {"memory", "nvidia.com/gpu"}
        assert not env_of(worker).keys() & VARIABLES.keys()


def test_a_type_may_have_more_shared_memory_and_never_more_than_the_pods_memory() -> None:
    def shared(pod: dict[str, Any]) -> str:
        (found,) = [each["emptyDir"]["sizeLimit"] for each in pod["volumes"] if each["name"] == "shared-memory"]
        return str(found)

    assert (shared(pod_of(nodes=1)), shared(pod_of(nodes=1, gpu_type="L4"))) == ("65536Mi", "8192Mi")
    with pytest.raises(UserError, match="64 GiB of memory, and its /dev/shm would have 64 GiB"):
        pod_of(nodes=1, memory_gib=64.0)


def test_several_nodes_of_any_type_are_refused_where_a_type_has_a_network_that_they_would_not_get() -> None:
    with pytest.raises(UserError, match="without the network of H100") as caught:
        pod_of(nodes=2, gpu_type=None)
    assert caught.value.where == "hardware.gpu_type"


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ({"resources": {"nvidia.com/gpu": 1}}, "the GPUs' own"),
        ({"resources": {"efa": 1}}, "extended resource"),
        ({"resources": {"rdma/hca": 0}}, "greater than or equal to 1"),
        ({"resources": {"rdma/hca": 1}, "hugepages_mib": 3}, "multiple of 2"),
        ({"resources": {"rdma/hca": 1}, "environment": {"MASTER_ADDR": "x"}}, "no variable of NCCL"),
        ({"resources": {"rdma/hca": 1}, "ipc_lock": True}, "Extra inputs"),
    ],
)
def test_networks_that_mean_nothing_are_errors_of_the_settings(network: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        settings_of(gpu_types={"H100": {"network": network}})


def test_no_pod_has_a_capability_whatever_its_network() -> None:
    """Pod security ``restricted`` would refuse it, and it means nothing to a process that is not root."""
    (worker,) = pod_of(nodes=2)["containers"]
    assert worker["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_pods_avoid_nodes_that_were_found_not_well() -> None:
    plan = plan_pod(spec_of(), settings_of(), avoid=["gpu-3", "gpu-1", "gpu-3"])
    (job,) = to_k8s(plan)
    kubernetes_validate.validate(job, "1.36", strict=True)
    required = job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchFields"] == [
        {"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in ("gpu-3", "gpu-1")
    ]
    assert "affinity" not in to_k8s(plan_pod(spec_of(), settings_of()))[0]["spec"]["template"]["spec"]


PARTS = {
    "H100-1g.10gb": {"resource": "nvidia.com/mig-1g.10gb", "cpus_per_gpu": 2.0, "memory_gib_per_gpu": 16.0},
    "L4-1of4": {"resource": "nvidia.com/gpu.shared", "shared_by": 4},
}


def test_a_part_of_a_gpu_is_asked_for_by_its_resource_and_one_that_is_shared_leaves_the_others_their_memory() -> None:
    def worker_of(gpu_type: str) -> dict[str, Any]:
        (job,) = to_k8s(plan_pod(spec_of(gpus=1, gpu_type=gpu_type), settings_of(gpu_types=PARTS)))
        found: dict[str, Any] = job["spec"]["template"]["spec"]["containers"][0]
        return found

    instance, turn = worker_of("H100-1g.10gb"), worker_of("L4-1of4")
    assert instance["resources"]["limits"]["nvidia.com/mig-1g.10gb"] == "1"
    assert turn["resources"]["limits"]["nvidia.com/gpu.shared"] == "1"
    assert env_of(turn)["PYTORCH_ALLOC_CONF"] == "expandable_segments:True,per_process_memory_fraction:0.2250"
    assert "PYTORCH_ALLOC_CONF" not in env_of(instance)
    # Or the node's CPUs would be given away before its parts.
    asked = [{name: each["resources"]["requests"][name] for name in ("cpu", "memory")} for each in (instance, turn)]
    assert asked == [{"cpu": "2000m", "memory": "16384Mi"}, {"cpu": "8000m", "memory": "98304Mi"}]


@pytest.mark.parametrize(
    ("name", "gpu", "words"),
    [
        ("H100-1g.10gb", {"resource": "nvidia.com/mig-1g.10gb", "network": EFA}, "has no network"),
        ("L4", {"resource": "nvidia.com/gpu.shared", "shared_by": 4}, "should end with -1of4"),
        ("L4-1of4", {"shared_by": 4}, "also asked for by work that does not share"),
        ("L4-1of2", {"resource": "x.com/y", "shared_by": 2, "network": EFA}, "has no network"),
    ],
)
def test_parts_of_gpus_that_estimates_would_not_know_are_errors_of_the_settings(
    name: str, gpu: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        settings_of(gpu_types={name: gpu})
