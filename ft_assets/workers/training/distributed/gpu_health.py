"""Faults of a GPU according to NVML (https://docs.nvidia.com/deploy/nvml-api/), which DCGM's health checks read too."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any


def faults_of(nvml: Any, gpu: Any) -> Iterator[str]:
    """Sentences about the GPU with the handle ``gpu``; ``nvml`` is the module pynvml. What a GPU does not have, such as
    NVLinks, is not checked."""
    with suppress(nvml.NVMLError):
        kind, since = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        if errors := nvml.nvmlDeviceGetTotalEccErrors(gpu, kind, since):
            yield f"its memory had {errors} errors that could not be corrected"
    with suppress(nvml.NVMLError):
        *_, pending, failed = nvml.nvmlDeviceGetRemappedRows(gpu)
        if failed:
            yield "it has no spare memory rows left"
        elif pending:
            yield "it must be reset to replace memory rows"
    with suppress(nvml.NVMLError):
        reasons = nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)
        for cause, reason in (
            ("heat", nvml.nvmlClocksEventReasonHwThermalSlowdown),
            ("a shortage of power", nvml.nvmlClocksEventReasonHwPowerBrakeSlowdown),
        ):
            if reasons & reason:
                yield f"{cause} slows it down"
    with suppress(nvml.NVMLError):
        # An idle link lowers its generation but not its width.
        width, most = nvml.nvmlDeviceGetCurrPcieLinkWidth(gpu), nvml.nvmlDeviceGetMaxPcieLinkWidth(gpu)
        if width < most:
            yield f"its PCIe link has {width} of {most} lanes"
    links = list(_links(nvml, gpu))
    if any(links) and not all(links):
        yield f"{links.count(False)} of its {len(links)} NVLinks are down"


def _links(nvml: Any, gpu: Any) -> Iterator[bool]:
    """Whether each NVLink is up; none without NVLink."""
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            yield bool(nvml.nvmlDeviceGetNvLinkState(gpu, link))
        except nvml.NVMLError:
            return
