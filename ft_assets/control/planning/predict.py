"""All of it together: what a training on some hardware would take."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ft_assets.packs.estimate.bounds import NOTHING, Bounds
from ft_assets.packs.estimate.hardware import Hardware
from ft_assets.packs.estimate.memory import Memory, Setup, peak_memory
from ft_assets.packs.estimate.model_size import Architecture
from ft_assets.packs.estimate.time import (
    Work,
    scoring_seconds,
    scoring_share,
    seconds_at,
    startup_seconds,
    training_seconds,
)


class Fits(StrEnum):
    """Whether the peak fits a GPU: even its upper bound, what is expected, its lower bound only, or nothing."""

    YES = "yes"
    PROBABLY = "probably"
    PROBABLY_NOT = "probably not"
    NO = "no"


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """Each is None where too little is known.

    ``seconds`` are those of training alone, ``gpu_hours`` from the worker's start to its end, times the GPUs, and of
    the worker that scores the reference before, on one GPU.
    """

    memory: Memory | None
    fits: Fits | None
    seconds: Bounds | None
    gpu_hours: Bounds | None


def predict(
    model: Architecture | None,
    setup: Setup,
    work: Work,
    hardware: Hardware | None,
    *,
    rates: Sequence[float] = (),
    converted: bool = False,
    weight_bytes: float = 0.0,
    scored_tokens: int = 0,
) -> Prediction:
    """What training ``model`` takes.

    Args:
        model: None where neither its settings nor its size are known.
        setup: how it is trained; ``gpus`` of 0 is a training on a CPU, which takes no GPU-hours.
        hardware: the type of each GPU; None where it is unknown, or on a CPU.
        rates: tokens/s of earlier trainings of the same kind; they are better than the formula, and used instead.
        converted: whether they were measured on trainings of another shape.
        weight_bytes: size of the base's weights as stored.
        scored_tokens: what a reference still has to be asked about before, by a worker of its own.
    """
    memory = peak_memory(model, setup) if model else None
    fits = _fits(memory.total, hardware) if memory and hardware else None
    seconds = None
    if rates:
        seconds = seconds_at(rates, work.tokens, converted=converted)
    elif model and hardware:
        seconds = training_seconds(model, setup, work, hardware)
    gpu_hours = NOTHING if setup.gpus == 0 else None
    if seconds and setup.gpus:
        gpu_hours = (seconds + startup_seconds(weight_bytes)).times(setup.gpus / 3600)
        if scored_tokens:
            scored = replace(work, tokens=scored_tokens)
            gpu_hours = gpu_hours + _scoring(model, setup, scored, hardware, rates, converted, weight_bytes)
    return Prediction(memory=memory, fits=fits, seconds=seconds, gpu_hours=gpu_hours)


def _scoring(
    model: Architecture | None,
    setup: Setup,
    work: Work,
    hardware: Hardware | None,
    rates: Sequence[float],
    converted: bool,
    weight_bytes: float,
) -> Bounds:
    """GPU-hours of scoring ``work.tokens`` on one GPU: at the rates of trainings where there are some, as for these."""
    if rates:
        alike = work.tokens * scoring_share(model, setup, work) * setup.gpus
        seconds = seconds_at(rates, round(alike), converted=converted)
    else:
        assert model is not None
        assert hardware is not None
        seconds = scoring_seconds(model, setup, work, hardware)
    return (seconds + startup_seconds(weight_bytes)).times(1 / 3600)


def _fits(peak: Bounds, hardware: Hardware) -> Fits:
    room = hardware.memory_bytes
    if peak.upper <= room:
        return Fits.YES
    if peak.expected <= room:
        return Fits.PROBABLY
    return Fits.PROBABLY_NOT if peak.lower <= room else Fits.NO
