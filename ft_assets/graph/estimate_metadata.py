"""An estimate as Dagster shows it."""

from typing import Any

import dagster as dg

from ft_assets.api import Estimate
from ft_assets.settings.bounds import Bounds
from ft_assets.settings.gpus import GIB


def estimate_metadata(found: Estimate) -> dict[str, Any]:
    """The numbers of an estimate under names that begin with ``estimated_``, and a table with the source of each."""
    steps = f"{found.steps_per_epoch:,} per epoch" + ("; upper limit, as it may stop early" if found.at_most else "")
    rows = [
        ("tokens per epoch", f"{found.tokens_per_epoch:,}", found.tokens_from),
        ("optimizer steps", f"{found.steps:,}", steps),
        ("training time, seconds", _seconds(found), found.seconds_from),
        ("peak memory, GiB", _between(found.memory, GIB), found.memory_from),
        ("host memory, GiB", _between(found.host_memory, GIB), found.memory_from),
        ("scratch disk, GiB", _between(found.scratch, GIB), found.memory_from),
        ("GPU-hours", _between(found.gpu_hours), found.gpu_hours_from),
        (f"price, {found.currency}", _between(found.price), found.price_from),
    ]
    if found.documents[0]:
        rows.insert(2, ("documents run", *found.documents))
    if found.trials > 1:
        rows.insert(0, ("trials", str(found.trials), "in the sweep, as a total over all trials"))
    if found.fits:
        rows.insert(-2, ("fits the GPU", str(found.fits), f"{(found.gpu_memory or 0) / GIB:.1f} GiB"))
    table = "\n".join(
        ["| | estimate | source |", "|---|---:|---|"]
        + [f"| {name} | {value} | {_cell(ground)} |" for name, value, ground in rows]
    )
    metadata: dict[str, Any] = {"estimate": dg.MetadataValue.md(table), "estimated_steps": found.steps}
    if found.memory:
        metadata["estimated_peak_gib"] = round(found.memory.expected / GIB, 3)
    if found.gpu_hours:
        metadata["estimated_gpu_hours"] = round(found.gpu_hours.expected, 4)
    if found.price:
        metadata["estimated_price"] = round(found.price.expected, 2)
    return metadata


def _seconds(found: Estimate) -> str:
    if found.rough_seconds:
        return f"about {found.rough_seconds.lower:,.0f} to {found.rough_seconds.upper:,.0f}"
    return "unknown" if found.seconds is None else f"{found.seconds:,.0f}"


def _between(bounds: Bounds | None, unit: float = 1.0) -> str:
    if bounds is None:
        return "unknown"
    return f"{bounds.expected / unit:,.2f} ({bounds.lower / unit:,.2f} to {bounds.upper / unit:,.2f})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
