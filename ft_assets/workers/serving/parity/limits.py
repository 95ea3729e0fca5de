"""Tolerated differences between a server and the evaluation, by the precision of both.

The table was measured on several engines (docs/explanation/parity.md). For half precision, noise is measured for each
adapter: the difference of one model between the evaluation and the server's dtype. ``_NOISE`` times this noise is the
limit if it is tighter than the table's.
"""

from typing import Literal

from pydantic import Field

from ft_assets.workers.serving.parity.figures import Figures
from ft_assets.workers.serving.parity.settings import ServerSettings
from ft_resources.strict_model import StrictModel

Precision = Literal["float32", "half", "8 bits", "4 bits"]
# Another engine's kernels add up in another order, which the noise of two runs here does not include.
_NOISE = 4.0
# Lower bounds of the limits, those of float32: else a model with hardly any noise would fail for a last bit.
_LEAST_KL, _LEAST_P99 = 1e-5, 5e-3


class Limits(StrictModel):
    """Bounds of ``Figures``; None where a figure is only reported."""

    argmax: float | None = Field(description="Least share of places with the same likeliest token.")
    kl: float | None = Field(description="Most nats of mean KL divergence.")
    p99: float | None = Field(description="Most nats between log-probabilities, in 99 of 100 places.")
    max: float | None = Field(None, description="The same in all places.")


LIMITS: dict[Precision, Limits] = {
    "float32": Limits(argmax=1.0, kl=_LEAST_KL, p99=_LEAST_P99, max=2e-5),
    "half": Limits(argmax=0.99, kl=1e-3, p99=0.15),
    "8 bits": Limits(argmax=0.98, kl=2e-3, p99=0.3),
    # One token in a hundred differs, so suite scores decide; the limit left here detects a lost adapter.
    "4 bits": Limits(argmax=None, kl=0.05, p99=None),
}


def precision_of(settings: ServerSettings, evaluated_in: str) -> Precision:
    """The coarser one of the server's precision and of the dtype of evaluation."""
    if settings.weight_bits is not None:
        return "4 bits" if settings.weight_bits == 4 else "8 bits"
    return "float32" if settings.dtype == evaluated_in == "float32" else "half"


def limits_of(precision: Precision, noise: Figures | None) -> Limits:
    """The table's limits, tightened by the ``noise`` of half precision."""
    table = LIMITS[precision]
    if noise is None or table.kl is None or table.p99 is None:
        return table
    return Limits(
        # A share of so few places does not measure noise: it may be a single one of 300.
        argmax=table.argmax,
        kl=min(table.kl, max(_LEAST_KL, _NOISE * noise.kl)),
        p99=min(table.p99, max(_LEAST_P99, _NOISE * noise.p99)),
    )
