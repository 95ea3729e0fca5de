"""What scoring suites takes on one GPU: tokens read and written, and seconds by stated rates. Pure arithmetic.

Reading is bound by arithmetic: 2 operations for each weight and token, attention, and the output layer where a
prediction is wanted; at the share of the peak that estimates take for trainings. Writing is bound by
what is read from memory for each step, all weights and the rows' keys and values, or by the time in which eager code
launches a step, whichever is longer. A batch is written until its longest answer is, taken as the task's limit.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from ft_assets.settings.bounds import NOTHING, Bounds
from ft_assets.settings.gpus import Hardware
from ft_assets.workers.model_size.model_size import Architecture

# Share of the peak: slowest, usual, best; as for trainings.
_UTILISATION = Bounds(lower=0.25, expected=0.40, upper=0.60)
# Share of the memory's bandwidth that steps of a few dozen rows reach.
_BANDWIDTH_SHARE = Bounds(lower=0.4, expected=0.6, upper=0.8)
# Launching a layer of one step from Python, about thirty kernels; a stated guess that a GPU has to confirm.
_LAYER_LAUNCH_S = Bounds(lower=0.6e-3, expected=1.0e-3, upper=1.6e-3)
_BYTES = 2  # bf16


@dataclass(frozen=True, kw_only=True, slots=True)
class SuiteLoad:
    """A suite in numbers; token counts are means.

    Args:
        prefixes: different few-shot beginnings (57 of MMLU), each of ``prefix`` tokens.
        question: tokens of an item behind the few-shot examples.
        choices: of an item, each of ``choice`` tokens; 0 where an answer is written.
        new: most tokens of a written answer.
    """

    name: str
    items: int
    prefixes: int = 1
    prefix: int = 0
    question: float
    choices: float = 0
    choice: float = 0
    new: int = 0

    @property
    def read(self) -> float:
        """Tokens that are read with each shared beginning computed once."""
        return self.prefixes * self.prefix + self.items * (self.question + self.choices * max(0.0, self.choice - 1))

    @property
    def read_unshared(self) -> float:
        """Tokens that stock lm-eval reads: everything for each choice, or once where all choices are one token."""
        times = self.choices if self.choice > 1 else 1
        return self.items * times * (self.prefix + self.question + max(0.0, self.choice - 1))

    @property
    def predictions(self) -> float:
        """Places at which the output layer runs, without written answers."""
        return self.items * (1 + self.choices * max(0.0, self.choice - 1))


# Token counts are of Qwen2.5's tokenizer on the public data; HellaSwag's and MMLU's items are all of them. Limits of
# written answers are lm-eval's, GSM8K's 256.
DEFAULT_SUITES = (
    SuiteLoad(name="MMLU, 5-shot", items=14_042, prefixes=57, prefix=531, question=106, choices=4, choice=1),
    SuiteLoad(name="HellaSwag, 10-shot", items=10_042, prefix=810, question=50, choices=4, choice=30),
    SuiteLoad(name="ARC-Challenge, 25-shot", items=1_172, prefix=940, question=31, choices=4, choice=6),
    SuiteLoad(name="TruthfulQA", items=817, prefix=150, question=17, choices=7.6, choice=10),
    SuiteLoad(name="IFEval", items=541, question=66, new=1280),
    SuiteLoad(name="HumanEval", items=164, question=134, new=1024),
    SuiteLoad(name="GSM8K, 5-shot", items=1_319, prefix=950, question=65, new=256),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class SuiteCost:
    """What a suite takes: ``flops`` of reading, ``steps`` of writing, and seconds of both."""

    name: str
    read: float
    read_unshared: float
    flops: float
    flops_unshared: float
    steps: int
    seconds: Bounds
    seconds_unshared: Bounds


def suite_cost(load: SuiteLoad, model: Architecture, gpu: Hardware, *, rows: int = 64) -> SuiteCost:
    """The cost of a suite on one GPU, answers written ``rows`` at a time."""
    own = load.question + load.choices * max(0.0, load.choice - 1)
    flops = _flops(model, load.read, load.prefix + own / 2, load.predictions)
    # Stock runs the output layer at every place, and half of a sequence is what its tokens see on average.
    length = load.prefix + load.question + load.choice
    flops_unshared = _flops(model, load.read_unshared, length / 2, load.read_unshared)
    steps = ceil(load.items / rows) * load.new
    writing = _writing(model, gpu, steps, min(rows, load.items), load.prefix + load.question + load.new / 2)
    return SuiteCost(
        name=load.name,
        read=load.read,
        read_unshared=load.read_unshared,
        flops=flops,
        flops_unshared=flops_unshared,
        steps=steps,
        seconds=_reading(flops, gpu) + writing,
        seconds_unshared=_reading(flops_unshared, gpu) + writing,
    )


def total_seconds(costs: Iterable[SuiteCost], *, shared: bool = True) -> Bounds:
    """Seconds of all suites one after the other, with beginnings shared or not."""
    found = NOTHING
    for cost in costs:
        found = found + (cost.seconds if shared else cost.seconds_unshared)
    return found


def _flops(model: Architecture, tokens: float, seen: float, predictions: float) -> float:
    """Operations of reading ``tokens`` that each attend to ``seen`` others on average."""
    attention = 4 * model.layers * model.heads * model.head_dim * seen
    return tokens * (2 * model.active + attention) + predictions * 2 * model.vocabulary * model.hidden


def _reading(flops: float, gpu: Hardware) -> Bounds:
    return Bounds(
        lower=flops / (gpu.peak_flops * _UTILISATION.upper),
        expected=flops / (gpu.peak_flops * _UTILISATION.expected),
        upper=flops / (gpu.peak_flops * _UTILISATION.lower),
    )


def _writing(model: Architecture, gpu: Hardware, steps: int, rows: int, length: float) -> Bounds:
    weights = model.active + model.vocabulary * model.hidden
    kept = 2 * model.layers * model.kv_heads * model.head_dim * length * rows
    moved = (weights + kept) * _BYTES / gpu.bandwidth

    def seconds(share: float, launch: float) -> float:
        return steps * max(moved / share, model.layers * launch)

    return Bounds(
        lower=seconds(_BANDWIDTH_SHARE.upper, _LAYER_LAUNCH_S.lower),
        expected=seconds(_BANDWIDTH_SHARE.expected, _LAYER_LAUNCH_S.expected),
        upper=seconds(_BANDWIDTH_SHARE.lower, _LAYER_LAUNCH_S.upper),
    )
