"""Host memory and scratch disk of a training: the copies of what trains, by hand."""

from typing import Any

import pytest

from ft_assets.settings.gpus import GIB, find_hardware
from ft_assets.workers.model_size.host import HostNeeds, host_needs
from tests.workers.packs.estimate.made import LLAMA_3_8B, llama, setup


def needs(*, processes: int = 1, kept: int = 0, **settings: Any) -> HostNeeds:
    made = setup(precision="bf16", **{"tokens": 1, "gpus": 1, **settings})
    return host_needs(llama(**LLAMA_3_8B), made, processes=processes, kept=kept)


def test_a_full_8b_copies_90_to_99_gib_to_pinned_memory_and_writes_its_weights_from_another_15() -> None:
    found = needs(variant="full").memory
    # 12 bytes a parameter, as PyTorch rounds each pinned tensor up to a power of two; a process takes 1 to 6.
    assert (found.lower - (1 + 15) * GIB) / GIB == pytest.approx(89.7, abs=0.1)
    assert (found.upper - (6 + 15) * GIB) / GIB == pytest.approx(99, abs=0.1)


def test_each_process_of_the_node_counts_and_the_copies_once_whatever_the_shards() -> None:
    one, eight = needs(variant="full"), needs(variant="full", processes=8, gpus=8, shards="fsdp")
    assert (eight.memory.lower - one.memory.lower) / GIB == pytest.approx(7)
    assert eight.disk == one.disk


def test_the_disk_holds_a_save_and_the_weights_and_each_set_that_is_kept_and_one_that_is_uploaded() -> None:
    parameters = llama(**LLAMA_3_8B).parameters
    assert needs(variant="full").disk.expected == (12 + 2) * parameters
    assert needs(variant="full", kept=2).disk.expected == (12 + 2 * 4) * parameters


def test_adapters_take_little_of_either() -> None:
    found = needs(rank=16)
    assert found.memory.upper < 8 * GIB
    assert found.disk.upper < GIB


def test_each_process_holds_the_inputs_of_the_recomputed_layers_that_it_offloads() -> None:
    plain, half, whole = (
        needs(processes=2, gpus=2, tokens=5000, recompute=every, offload=offload).memory
        for every, offload in ((1, False), (2, True), (1, True))
    )
    # 32 layers of 5,000 rows of 4,096 numbers in bf16, pinned: 64 MiB each.
    assert whole.lower - plain.lower == 2 * 32 * 5000 * 4096 * 2
    assert whole.expected - plain.expected == 2 * 32 * 2**26
    assert half.upper - plain.upper == (whole.upper - plain.upper) / 2
    assert needs(tokens=5000, offload=True) == needs(tokens=5000)


def test_adafactor_copies_a_third() -> None:
    assert needs(variant="full", optimizer="adafactor").memory.lower < 50 * GIB


def test_an_h200_has_140_gib_and_not_141() -> None:
    gpu = find_hardware("H200")
    assert gpu is not None
    assert gpu.memory_bytes / GIB == pytest.approx(140.4, abs=0.01)
