"""The contents of an estimate, and the estimate of a sweep, which combines its trials'."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ft_assets.control.planning.exports import ExportEstimate
from ft_assets.control.planning.predict import Fits
from ft_assets.control.planning.provable import Provable
from ft_assets.settings.bounds import Bounds


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Sizes of one training; each ``…_from`` describes the source of its numbers.

    Args:
        counted: whether the sizes are those of the pair's token pack.
        tokens: over the whole run; windows and tokens_per_epoch are for one epoch.
        seconds: training alone; None if the speed is unknown or only roughly known.
        rough_seconds: the range of it where no such training was measured and the device is a CPU, or a GPU of no known
            type; None otherwise, and if the base is not known.
        memory: peak bytes of one GPU or of the process on a CPU; ``memory_parts`` are expected bytes.
        host_memory: peak bytes of the first node's host memory; scratch: of its scratch disk.
        gpu_type: that the training would request; None if any, or none.
        gpu_memory: bytes of that GPU; None on a CPU and for an unknown type.
        fits: whether the peak fits it.
        gpu_hours: from the worker's start to its end, times the GPUs or the part of one; 0 on a CPU, None if unknown.
        settings: (path, value, origin) of each setting of the training, resolved from what is known now.
        trials: number of trainings covered, more than one for a sweep.
        documents: how documents run through the base, packed or apart, and why; empty if nothing is known of the base.
        at_most: whether the training may stop early; steps, tokens, time, GPU-hours and price are those of all steps.
        notes: further remarks, as sentences.
        provable: whether holdout and suites are large enough for each gate.
        exports: what the recipe's exports would take after the training, which is in no other number here.
        walls: what keeps the result out of production, as sentences; none for a recipe that is not registered.
        price: in ``currency``; None if GPU-hours or the type's price are unknown.
    """

    tokens_per_epoch: int
    windows: int
    steps_per_epoch: int
    steps: int
    tokens: int
    tokens_from: str
    seconds: float | None
    seconds_from: str
    memory: Bounds | None
    memory_parts: dict[str, int]
    memory_from: str
    gpu_memory: int | None
    fits: Fits | None
    gpu_hours: Bounds | None
    gpu_hours_from: str
    price: Bounds | None
    currency: str
    price_from: str
    settings: list[tuple[str, str, str]]
    trials: int = 1
    host_memory: Bounds | None = None
    scratch: Bounds | None = None
    rough_seconds: Bounds | None = None
    gpu_type: str | None = None
    counted: bool = False
    documents: tuple[str, str] = ("", "")
    at_most: bool = False
    notes: tuple[str, ...] = ()
    provable: tuple[Provable, ...] = ()
    exports: tuple[ExportEstimate, ...] = ()
    walls: tuple[str, ...] = ()


def total(estimates: Sequence[Estimate]) -> Estimate:
    """The sum of steps, tokens, time, GPU-hours and price; memory and fit of the trial that needs most.

    A value that is unknown for one trial is unknown for all. Epochs are one trial's, as all read one pack.
    """
    largest = max(estimates, key=lambda each: each.memory.upper if each.memory else 0.0)
    seconds = [each.seconds for each in estimates if each.seconds is not None]
    return replace(
        largest,
        trials=len(estimates),
        steps=sum(each.steps for each in estimates),
        tokens=sum(each.tokens for each in estimates),
        seconds=sum(seconds) if len(seconds) == len(estimates) else None,
        rough_seconds=_added([each.rough_seconds for each in estimates]),
        gpu_hours=_added([each.gpu_hours for each in estimates]),
        price=_added([each.price for each in estimates]),
        settings=_settings(estimates),
    )


def _added(parts: Sequence[Bounds | None]) -> Bounds | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    found = known[0]
    for part in known[1:]:
        found = found + part
    return found


def _settings(estimates: Sequence[Estimate]) -> list[tuple[str, str, str]]:
    """The settings of all trials; if they differ, each distinct value once."""
    rows = []
    for index, (path, value, origin) in enumerate(estimates[0].settings):
        values = list(dict.fromkeys(each.settings[index][1] for each in estimates))
        rows.append((path, value, origin) if len(values) == 1 else (path, " | ".join(values), "sweep"))
    return rows
