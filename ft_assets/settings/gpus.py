"""GPU types with their vendor's specifications. Prices are in the platform's settings.

Peaks are for dense 16-bit matrix products (bf16, or fp16 if a type has no bf16), from NVIDIA's data sheets, in which a
figure "with sparsity" is twice the dense one. Memory is what the driver reports (``nvidia-smi``); with in-band ECC that
is less than the data sheet's round number. Last checked in November 2026; ``docs/explanation/estimates.md`` says where
sources differ.
"""

import difflib
import re
from dataclasses import dataclass, replace

GIB = 2**30
_MIB = 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class Hardware:
    """One GPU type.

    Args:
        name: its name in recipes and prices.
        memory_bytes: of one GPU, as the driver reports it.
        peak_flops: dense 16-bit matrix products, FLOP/s.
        bandwidth: of its memory, bytes/s.
        bf16: whether it computes in bf16; older types only have fp16.
        fp8: whether it multiplies 8-bit floats: compute capability 8.9 and above.
        part_of: of a part (``find_hardware``), the type that it is a part of; else empty.
        share: the part's share of that type, by which it is billed where it has no price of its own.
    """

    name: str
    memory_bytes: int
    peak_flops: float
    bandwidth: float
    bf16: bool = True
    fp8: bool = True
    part_of: str = ""
    share: float = 1.0


def _gpu(name: str, *, mib: int, tflops: float, gb_s: float, bf16: bool = True, fp8: bool = True) -> Hardware:
    return Hardware(
        name=name, memory_bytes=mib * _MIB, peak_flops=tflops * 1e12, bandwidth=gb_s * 1e9, bf16=bf16, fp8=fp8
    )


CATALOGUE: dict[str, Hardware] = {
    gpu.name: gpu
    for gpu in (
        _gpu("T4", mib=15360, tflops=65, gb_s=300, bf16=False, fp8=False),
        _gpu("V100-16", mib=16384, tflops=125, gb_s=900, bf16=False, fp8=False),
        _gpu("V100-32", mib=32768, tflops=125, gb_s=900, bf16=False, fp8=False),
        _gpu("A10", mib=23028, tflops=125, gb_s=600, fp8=False),
        _gpu("A10G", mib=23028, tflops=70, gb_s=600, fp8=False),
        _gpu("L4", mib=23034, tflops=121, gb_s=300),
        _gpu("L40S", mib=46068, tflops=362, gb_s=864),
        _gpu("A100-40", mib=40960, tflops=312, gb_s=1555, fp8=False),
        _gpu("A100-80", mib=81920, tflops=312, gb_s=2039, fp8=False),
        _gpu("H100-PCIe", mib=81559, tflops=756, gb_s=2000),
        _gpu("H100", mib=81559, tflops=989, gb_s=3350),
        _gpu("H200", mib=143771, tflops=989, gb_s=4800),
        _gpu("B200", mib=183359, tflops=2250, gb_s=7700),
    )
}
"""By name. V100, A100, H100, H200 and B200 are the SXM forms; the PCIe H100 is slower and has a name of its own."""

# Words in product names and node labels that do not distinguish types, such as those in NVIDIA-H100-80GB-HBM3.
_NOISE = re.compile(r"nvidia|tesla|amperev?|hopper|tensor|core|gpu|sxm\d?|hbm\d?e?|gddr\d|[^a-z0-9]")
_SIZE = re.compile(r"(\d+)gi?b")
_PART = re.compile(
    r"(?P<whole>.+?)[ -](?:mig[ -])?(?:(?P<slices>[1-47])g\.(?P<gb>\d+)gb|1of(?P<turns>[2-8]))", re.IGNORECASE
)
_MIG_GB = {"A100-40": 40, "A100-80": 80, "H100": 80, "H100-PCIe": 80, "H200": 141}
_EIGHTHS = {1: (1, 2), 2: (2,), 3: (4,), 4: (4,), 7: (8,)}
"""Eighths of the memory, by slices of compute (https://docs.nvidia.com/datacenter/tesla/mig-user-guide). A slice is a
seventh of the processors that MIG can use, about an eighth of all."""
_FREE = 0.9
"""Share of a part's memory that is surely free: MIG and each CUDA context need some."""
_ROUND_GB = {
    "T4": "16",
    "A10": "24",
    "A10G": "24",
    "L4": "24",
    "L40S": "48",
    "H100-PCIe": "80",
    "H100": "80",
    "H200": "141",
    "B200": "180",
}


def find_hardware(name: str) -> Hardware | None:
    """The GPU type named ``name``, None if it is unknown or ambiguous.

    Case, vendor and form do not matter: ``h100``, ``NVIDIA-H100-80GB-HBM3`` and ``H100`` are one type.
    ``H100-1g.10gb`` is an instance of a GPU divided by MIG, ``L4-1of4`` one of four turns on a GPU.
    """
    if written := _PART.fullmatch(name):
        whole = find_hardware(written["whole"])
        return _part(whole, written) if whole else None
    wanted = _plain(name)
    found = [gpu for gpu in CATALOGUE.values() if wanted in _spellings(gpu)]
    return found[0] if len(found) == 1 else None


def _part(whole: Hardware, written: re.Match[str]) -> Hardware | None:
    """The part of ``whole`` with the written profile, None if there is no such profile."""
    if turns := written["turns"]:
        share = compute = memory = 1 / int(turns)
        name = f"{whole.name}-1of{turns}"
    else:
        slices, eighths = int(written["slices"]), round(8 * int(written["gb"]) / float(_MIG_GB.get(whole.name, "inf")))
        if eighths not in _EIGHTHS.get(slices, ()):
            return None
        compute, memory = slices / 8, eighths / 8
        share, name = max(slices / 7, memory), f"{whole.name}-{slices}g.{written['gb']}gb"
    return replace(
        whole,
        name=name,
        memory_bytes=round(whole.memory_bytes * memory * _FREE),
        peak_flops=whole.peak_flops * compute,
        bandwidth=whole.bandwidth * memory,
        part_of=whole.name,
        share=share,
    )


def unknown_hardware(name: str) -> str:
    """Error text for a name that ``find_hardware`` does not know: the nearest types, or all."""
    wanted = _plain(name)
    families = [gpu.name for gpu in CATALOGUE.values() if wanted and _plain(gpu.name).startswith(wanted)]
    near = families or [
        known for known in CATALOGUE if difflib.SequenceMatcher(None, wanted, _plain(known)).ratio() >= 0.6
    ]
    if near:
        return "did you mean " + " or ".join(repr(known) for known in near) + "?"
    return f"known here: {', '.join(CATALOGUE)}"


def _plain(name: str) -> str:
    """``NVIDIA A100-SXM4-80GB`` as ``a10080``."""
    plain = _NOISE.sub("", _SIZE.sub(r"\1", name.lower()))
    # Only the H100 has two speeds that a name must distinguish.
    return plain if plain.startswith("h100") else plain.replace("pcie", "")


def _spellings(gpu: Hardware) -> set[str]:
    """The type's own name, and the same with its memory's round number in it."""
    plain = _plain(gpu.name)
    round_number = _ROUND_GB.get(gpu.name, "")
    return {plain, plain + round_number, plain.replace("pcie", f"{round_number}pcie")}
