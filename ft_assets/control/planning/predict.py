"""The complete prediction of a training's memory, time and GPU-hours on given hardware."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ft_assets.settings.bounds import NOTHING, Bounds
from ft_assets.settings.gpus import Hardware
from ft_assets.workers.model_size.memory import Memory, Setup, peak_memory
from ft_assets.workers.model_size.model_size import Architecture
from ft_assets.workers.model_size.time import (
    Work,
    scoring_seconds,
    scoring_share,
    seconds_at,
    startup_seconds,
    training_seconds,
)


class Fits(StrEnum):
    """Whether the peak fits a GPU: even its upper bound, its expected value, only its lower bound, or not at all."""

    YES = "yes"
    PROBABLY = "probably"
    PROBABLY_NOT = "probably not"
    NO = "no"


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """Each value is None if too little is known.

    ``seconds`` are training alone. ``gpu_hours`` are from the worker's start to its end, times the GPUs or the part of
    one, plus those of the worker that scores the reference before, on one GPU.
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
    """What training ``model`` needs.

    Args:
        model: None if neither its settings nor its size are known.
        setup: how it is trained; ``gpus`` of 0 is a training on a CPU, which takes no GPU-hours.
        hardware: the type of each GPU; None if unknown, or on a CPU.
        rates: tokens/s of earlier trainings of the same kind, used in place of the formula.
        converted: whether they were measured on trainings of another shape.
        weight_bytes: size of the base's weights as stored.
        scored_tokens: tokens that a separate worker still has to score with the reference before.
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
        gpu_hours = gpu_hours.times(hardware.share if hardware else 1.0)
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
    """GPU-hours of scoring ``work.tokens`` on one GPU; also from the rates of earlier trainings if there are some."""
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
