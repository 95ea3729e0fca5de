"""Checks before several nodes train: is each GPU healthy, and how fast is the network between them?

A rank examines its own GPU: memory, links and clocks according to NVML, and the speed of its matrix products. Then all
ranks exchange a buffer as they will exchange gradients. The first rank stores the figures with the attempt as
``preflight.json``. An unhealthy node ends the attempt with ``SickNode``; the next attempt avoids that node. A fault in
the setup of all nodes ends it with ``NodeFault``, which is for the platform's administrators.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import json
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
import torch.distributed as dist

from ft_assets.workers.training.distributed.gpu_health import faults_of
from ft_assets.workers.training.ranks import Ranks
from ft_resources.errors import NodeFault, SickNode

_SLOW = 0.75
"""A GPU whose products run at less than this share of the median speed is unhealthy."""
_MATRIX, _PRODUCTS = 4096, 30
_LOCKED = 1 << 30
"""Least memory in bytes that a process must be allowed to lock."""
_BUFFER, _EXCHANGES = {"cuda": 256 << 20, "cpu": 4 << 20}, 5
"""Bytes that are exchanged at once, and how often."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """One rank's GPU: its ``faults`` as sentences, and the speed of its products (0 on a CPU). ``settings`` are faults
    in the setup of its node."""

    rank: int
    node: str
    faults: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    tflops: float = 0.0


def preflight(ranks: Ranks, device: str, keep: Callable[[str, bytes], None]) -> None:
    """Raise SickNode on every rank, with the same words, if any rank's GPU is unhealthy; NodeFault if all nodes have
    the same fault in their setup."""
    assert ranks.store is not None
    own = examine(ranks, device)
    ranks.store.set(f"ft-health/{ranks.rank}", json.dumps(asdict(own)))
    told = [json.loads(ranks.store.get(f"ft-health/{rank}")) for rank in range(ranks.world)]
    found = [Health(**{**each, **{name: tuple(each[name]) for name in ("faults", "settings")}}) for each in told]
    gb_s = exchange(ranks, device)
    common = in_common(found)
    sick = judge(found, common)
    if ranks.first:
        record = {"all_reduce_gb_s": gb_s, "ranks": told, "sick": sick, "settings": common}
        keep("preflight.json", json.dumps(record, indent=1).encode())
        print(f"ranks exchange {gb_s:.1f} GB/s (bus bandwidth of all_reduce)", flush=True)
    if sick:
        raise SickNode(
            "; ".join(f"node {node} is not well: {why}" for node, why in sick.items()),
            where="preflight",
            remedy="The work is tried again elsewhere. Drain the node and look at its GPU: nvidia-smi -q, dcgmi diag.",
        )
    if common:
        raise NodeFault(
            f"all of its {len({each.node for each in found})} nodes are set up wrongly: {'; '.join(common)}",
            where="preflight",
            remedy="This is for the platform's administrators: set LimitMEMLOCK=infinity for containerd on each node "
            "(docs/how-to/cluster.md, Fast networks between nodes).",
        )


def examine(ranks: Ranks, device: str) -> Health:
    """The health of this rank's GPU."""
    own = Health(rank=ranks.rank, node=ranks.nodes[ranks.rank], settings=tuple(rdma_faults()))
    if device == "cpu":
        return own
    # Faults after the products: heat shows under load.
    return replace(own, tflops=round(multiply(), 1), faults=(*own.faults, *own_faults()))


def in_common(found: Sequence[Health]) -> list[str]:
    """Faults in the setup that all nodes have, so that another node would be no better."""
    return [why for why in found[0].settings if all(why in each.settings for each in found)]


def judge(found: Sequence[Health], common: Sequence[str] = ()) -> dict[str, str]:
    """Unhealthy nodes, and why; faults that are ``common`` to all are left out."""
    sick: dict[str, list[str]] = {}
    usual = statistics.median(each.tflops for each in found)
    for each in found:
        why = [*each.faults, *(wrong for wrong in each.settings if wrong not in common)]
        if each.tflops < _SLOW * usual:
            why.append(f"it multiplies at {each.tflops:.0f} TFLOP/s, others at {usual:.0f}")
        if why:
            sick.setdefault(each.node, []).append(f"the GPU of rank {each.rank}: {', '.join(why)}")
    return {node: "; ".join(why) for node, why in sick.items()}


def multiply() -> float:
    """The speed of this rank's GPU in products of 16-bit matrices, in TFLOP/s."""
    matrix = torch.randn(_MATRIX, _MATRIX, device="cuda", dtype=torch.float16)
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for count in (3, _PRODUCTS):
        # The first few load kernels and raise clocks.
        began.record()
        for _ in range(count):
            matrix @ matrix
        ended.record()
    torch.cuda.synchronize()
    return float(2 * _MATRIX**3 * _PRODUCTS / (began.elapsed_time(ended) / 1000) / 1e12)


def exchange(ranks: Ranks, device: str) -> float:
    """Bus bandwidth of all_reduce over all ranks in GB/s, as nccl-tests define it: 2 (n - 1) / n of the bytes a second
    (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md). The slowest rank's."""
    buffer = torch.zeros(_BUFFER[device] // 4, device=device)
    # Connects the ranks.
    dist.all_reduce(buffer)
    _finish(device)
    began = time.perf_counter()
    for _ in range(_EXCHANGES):
        dist.all_reduce(buffer)
    _finish(device)
    seconds = max(each for (each,) in ranks.gathered([time.perf_counter() - began]))
    return float(2 * (ranks.world - 1) / ranks.world * _BUFFER[device] * _EXCHANGES / seconds / 1e9)


def _finish(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def rdma_faults(devices: Path = Path("/dev/infiniband")) -> Iterator[str]:
    """NCCL registers its buffers with a network device; if the process may not lock them, it silently uses TCP."""
    locked, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if devices.exists() and locked != resource.RLIM_INFINITY and locked < _LOCKED:
        yield f"a process there may lock less than {_LOCKED >> 20} MiB of memory, too little for RDMA"


def own_faults() -> tuple[str, ...]:
    """Faults of the one GPU that this rank sees."""
    import pynvml

    try:
        pynvml.nvmlInit()
        name = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
        return tuple(faults_of(pynvml, pynvml.nvmlDeviceGetHandleByUUID(name.encode())))
    except pynvml.NVMLError as problem:
        # A partition of a GPU (MIG) has another name; training does not depend on NVML.
        print(f"warning: the GPU's health is not known: {problem}", flush=True)
        return ()
