"""Whether a merged model answers as its base with the adapter on top, by their logits.

Merging rounds each changed weight once, to the dtype that the base is stored in. How much that may matter is measured
and not assumed: the reference's weights are rounded to the same dtype *at random*, to one of the two neighbours, so
that the mean stays (stochastic rounding; Gupta et al. 2015, https://arxiv.org/abs/1502.02551, section 3). Its error is
twice that of rounding to nearest in variance: uniform over a gap ``u``, u²/6 against u²/12. So a correct merge lies
nearer to the reference than this noise does, and one that lost its scale, a layer or the whole adapter lies far beyond.

Everything is computed in float32 on the CPU, where equal models give equal logits up to about 1e-6 of their size.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ft_assets.workers.base_models.tensors import stored_dtype
from ft_assets.workers.evals.model import load_model
from ft_resources.errors import BadBase

FLOAT32_NOISE = 2e-5
"""Of the largest logit: what two orders of adding the same float32 numbers differ by, with room to spare."""
NOISE_FACTORS = {"rms": 1.5, "largest": 3.0}
"""Times the measured noise that each distance may reach; the largest of many differences is a matter of chance."""
_SEED = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Distance:
    """Between the logits of two models at the same places: root mean square, and the largest of all."""

    rms: float
    largest: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Equality:
    """What was measured against base plus adapter, over ``rows`` texts of ``tokens`` tokens in all.

    ``merged`` is the merged model's distance, ``rounding`` that of the noise, ``base`` that of the base without the
    adapter: what the adapter does. ``floor`` is the float32 noise.
    """

    rows: int
    tokens: int
    merged: Distance
    rounding: Distance
    base: Distance
    floor: float

    @property
    def holds(self) -> bool:
        """Whether the merged model is as near to the reference as rounding its weights explains."""
        return all(
            getattr(self.merged, name) <= factor * getattr(self.rounding, name) + self.floor
            for name, factor in NOISE_FACTORS.items()
        )

    def facts(self) -> dict[str, Any]:
        return asdict(self)


def measure(
    base: Path,
    adapter: Path,
    merged: Path,
    rows: Sequence[Sequence[int]],
    scratch: Path,
    *,
    report: Callable[[str], None] = lambda phase: None,
) -> Equality:
    """Compare the model in folder ``merged`` with the model in ``base`` and the PEFT adapter in ``adapter`` on top.

    ``rows`` are token ids; the logits at all of their places are compared. The reference's are kept in ``scratch``, so
    that one model is in memory at a time.
    """
    report("comparing: base and adapter")
    reference: Any = load_model(base, adapter, device="cpu").model.float()
    kept = _Kept(scratch, rows)
    kept.keep(reference)
    with reference.disable_adapter():
        alone = kept.distance(reference)
    report("comparing: the noise of rounding")
    rounded = _rounded_at_random(reference, stored_dtype(base))
    rounding = kept.distance(rounded)
    del reference, rounded
    report("comparing: the merged model")
    found = kept.distance(load_model(merged, device="cpu").model.float())
    return Equality(
        rows=len(rows),
        tokens=sum(map(len, rows)),
        merged=found,
        rounding=rounding,
        base=alone,
        floor=FLOAT32_NOISE * max(1.0, kept.largest),
    )


def require_equal(found: Equality, where: str) -> None:
    """Raise BadBase unless the merged model answers as base and adapter."""
    if found.holds:
        return
    far, noise = found.merged, found.rounding
    raise BadBase(
        f"merged, the model does not answer as base and adapter together: its logits differ by {far.rms:.2g} "
        f"(root mean square; {far.largest:.2g} at most), and rounding its weights explains {noise.rms:.2g} "
        f"({noise.largest:.2g}); the adapter itself changes them by {found.base.rms:.2g}",
        where=where,
        remedy="Use the adapter with its base, as it was evaluated. The merge of this architecture is not supported: "
        "report it with the base's name.",
    )


class _Kept:
    """The reference's logits on disk, and the distance of other models to them."""

    def __init__(self, scratch: Path, rows: Sequence[Sequence[int]]) -> None:
        self._folder, self._rows = scratch / "logits", rows
        self._folder.mkdir(parents=True)
        self.largest = 0.0

    def keep(self, model: Any) -> None:
        for place, logits in enumerate(_logits(model, self._rows)):
            self.largest = max(self.largest, float(np.abs(logits).max()))
            np.save(self._folder / f"{place}.npy", logits)

    def distance(self, model: Any) -> Distance:
        squares, count, largest = 0.0, 0, 0.0
        for place, logits in enumerate(_logits(model, self._rows)):
            difference = np.abs(logits - np.load(self._folder / f"{place}.npy"))
            squares += float(np.square(difference, dtype=np.float64).sum())
            count += difference.size
            largest = max(largest, float(difference.max()))
        return Distance(rms=(squares / count) ** 0.5, largest=largest)


def _logits(model: Any, rows: Sequence[Sequence[int]]) -> Iterator[Any]:
    """The logits at every place of each row: [tokens, vocabulary], in float32."""
    import torch

    for row in rows:
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([list(row)]), use_cache=False).logits[0]
        yield logits.float().numpy()


def _rounded_at_random(model: Any, dtype: str) -> Any:
    """The PEFT model merged in float32, with the weights that the adapter changes rounded to ``dtype`` at random."""
    import torch
    from peft.tuners.tuners_utils import BaseTunerLayer

    base = model.get_base_model()
    changed = [name for name, module in base.named_modules() if isinstance(module, BaseTunerLayer)]
    merged = model.merge_and_unload()
    if dtype == "float32":
        return merged
    generator = torch.Generator().manual_seed(_SEED)
    target = getattr(torch, dtype)
    with torch.no_grad():
        for name in changed:
            weight = merged.get_submodule(name).weight
            # A dither of half a gap to either side, rounded to nearest, is rounding at random. The gap at m · 2^e,
            # with m from 0.5 to 1, is eps · 2^(e - 1).
            gap = torch.ldexp(torch.full_like(weight, torch.finfo(target).eps), torch.frexp(weight).exponent - 1)
            dither = torch.rand(weight.shape, generator=generator) - 0.5
            weight.copy_((weight + gap * dither).to(target).float())
    return merged
