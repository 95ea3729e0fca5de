"""Before several nodes train, GPUs and network are checked, and an unhealthy node is named."""

import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ft_assets.workers.training.distributed.gpu_health import faults_of
from ft_assets.workers.training.distributed.preflight import Health, in_common, judge, rdma_faults
from ft_assets.workers.training.train import train
from ft_resources.attempts import Attempt
from ft_resources.errors import SickNode
from ft_resources.store import Store
from tests.workers.training.conftest import Bench, make_bench

pytestmark = pytest.mark.training


class NoAnswer(Exception):
    """NVML's error."""


class Nvml:
    """pynvml's answers for a healthy GPU, except for ``changes``: answers by name, None for what it does not have."""

    NVMLError = NoAnswer
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, NVML_NVLINK_MAX_LINKS = 1, 0, 18
    nvmlClocksEventReasonHwThermalSlowdown, nvmlClocksEventReasonHwPowerBrakeSlowdown = 0x40, 0x80

    def __init__(self, **changes: Any) -> None:
        well = {
            "TotalEccErrors": 0,
            "RemappedRows": (3, 1, 0, 0),
            # At rest, and not slowed down by hardware.
            "CurrentClocksEventReasons": 0x1,
            "CurrPcieLinkWidth": 16,
            "MaxPcieLinkWidth": 16,
            "NvLinkState": [1] * 18,
        }
        self._answers = {**well, **changes}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        answer = self._answers[name.removeprefix("nvmlDeviceGet")]

        def asked(_gpu: object, *which: int) -> Any:
            if answer is None or (isinstance(answer, list) and which[0] >= len(answer)):
                raise NoAnswer
            return answer[which[0]] if isinstance(answer, list) else answer

        return asked


def test_a_gpu_that_is_well_has_no_faults_nor_one_that_lacks_what_others_have() -> None:
    assert list(faults_of(Nvml(), "gpu")) == []
    lacking = dict.fromkeys(("TotalEccErrors", "RemappedRows", "CurrentClocksEventReasons", "CurrPcieLinkWidth"))
    assert list(faults_of(Nvml(**lacking, NvLinkState=[]), "gpu")) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"TotalEccErrors": 2}, "its memory had 2 errors that could not be corrected"),
        ({"RemappedRows": (0, 8, 1, 1)}, "it has no spare memory rows left"),
        ({"RemappedRows": (0, 1, 1, 0)}, "it must be reset to replace memory rows"),
        ({"CurrentClocksEventReasons": 0x41}, "heat slows it down"),
        ({"CurrentClocksEventReasons": 0x80}, "a shortage of power slows it down"),
        ({"CurrPcieLinkWidth": 8}, "its PCIe link has 8 of 16 lanes"),
        ({"NvLinkState": [1] * 16 + [0] * 2}, "2 of its 18 NVLinks are down"),
    ],
)
def test_each_fault_is_told_in_words(changes: dict[str, Any], said: str) -> None:
    assert list(faults_of(Nvml(**changes), "gpu")) == [said]


def gpus(*tflops: float) -> list[Health]:
    """Two ranks per node."""
    return [Health(rank=rank, node=f"gpu-{rank // 2}", tflops=each) for rank, each in enumerate(tflops)]


def test_a_node_is_named_whose_gpu_multiplies_more_slowly_than_the_others_do() -> None:
    assert judge(gpus(700, 690, 710, 400)) == {
        "gpu-1": "the GPU of rank 3: it multiplies at 400 TFLOP/s, others at 695"
    }
    assert judge(gpus(700, 690, 710, 600)) == {}
    assert judge(gpus(0, 0)) == {}


def test_a_node_is_named_for_each_gpu_of_it_that_is_not_well() -> None:
    found = [Health(rank=rank, node="gpu-0", faults=("it burns", "it smells")) for rank in range(2)]
    assert judge(found) == {"gpu-0": "the GPU of rank 0: it burns, it smells; the GPU of rank 1: it burns, it smells"}


LOCKED = "a process there may lock too little"


def test_how_one_node_is_set_up_is_that_nodes_fault_and_how_all_are_is_none_s() -> None:
    well, wrong = (
        tuple(Health(rank=at, node=f"gpu-{at}", settings=said) for at in range(2)) for said in ((), (LOCKED,))
    )
    assert in_common([well[0], wrong[1]]) == []
    assert judge([well[0], wrong[1]]) == {"gpu-1": f"the GPU of rank 1: {LOCKED}"}
    assert in_common(wrong) == [LOCKED]
    assert judge(wrong, in_common(wrong)) == {}


@pytest.mark.parametrize(("limit", "told"), [(8 << 20, True), (resource.RLIM_INFINITY, False), (4 << 30, False)])
def test_a_limit_on_locked_memory_by_which_nccl_would_silently_take_tcp_is_a_fault_where_there_is_rdma(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, told: bool
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    assert list(rdma_faults(tmp_path / "none")) == []
    words = ["a process there may lock less than 1024 MiB of memory, too little for RDMA"]
    assert list(rdma_faults(tmp_path)) == (words if told else [])


def two_nodes(folder: Path) -> Bench:
    bench = make_bench(folder, dropout=0.0, epochs=1, global_batch_size=4, micro_batch_size=2)
    bench.runtime |= {"processes": 1, "nodes": 2}
    return bench


def recorded(store: Store, path: str) -> dict[str, Any]:
    found: dict[str, Any] = store.get_json(f"{path}/preflight.json")
    return found


@pytest.mark.usefixtures("quick")
def test_two_nodes_that_are_well_leave_their_bandwidth_and_train(tmp_path: Path) -> None:
    bench = two_nodes(tmp_path)
    assert train(bench.context()).facts["steps"] > 0
    record = recorded(bench.store, bench.spec().attempt_path)
    assert record["all_reduce_gb_s"] > 0
    assert ([each["rank"] for each in record["ranks"]], record["sick"]) == ([0, 1], {})


def test_a_sick_node_ends_the_attempt_by_name_before_it_trains_and_is_known_to_the_next(
    tmp_path: Path, plant: Callable[..., None]
) -> None:
    plant("second_node_is_sick")
    bench = two_nodes(tmp_path)
    with pytest.raises(SickNode) as caught:
        train(bench.context())
    assert caught.value.what == "node gpu-1 is not well: the GPU of rank 1: it has no spare memory rows left"
    spec = bench.spec()
    assert Attempt(bench.store, spec.address, spec.attempt).sick_nodes() == ["gpu-1"]
    assert not list(bench.store.folders(f"{spec.attempt_path}/saves"))


@pytest.mark.parametrize("record", [b"[]", b"{", json.dumps({"sick": {"-x": "", "Gpu 1": "", "a" * 300: ""}}).encode()])
def test_names_that_no_node_has_are_not_believed(tmp_path: Path, record: bytes) -> None:
    bench = make_bench(tmp_path)
    spec = bench.spec()
    bench.store.put(f"{spec.attempt_path}/preflight.json", record)
    assert Attempt(bench.store, spec.address, spec.attempt).sick_nodes() == []
