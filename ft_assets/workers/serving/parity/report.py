"""The parity report of a server: the verdict and the figures that it rests on."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from ft_assets.workers.serving.parity.figures import Figures, SuiteScores
from ft_assets.workers.serving.parity.limits import Limits, Precision
from ft_assets.workers.serving.parity.settings import ServerSettings
from ft_resources.strict_model import StrictModel, added_field

# A 99th percentile of fewer places is their largest.
MIN_PROMPTS, MIN_TOKENS = 20, 100

Outcome = Literal["proved", "failed", "not proved"]


class ParityReport(StrictModel):
    """Whether a server gives the results of the evaluation. Only ``proved`` lets it serve."""

    settings: ServerSettings = Field(description="The server's.")
    outcome: Outcome = Field(description="failed: it differs; not proved: that could not be measured.")
    reasons: tuple[str, ...] = Field(description="Why not; empty if it is proved.")
    evaluated_in: str = Field(description="The dtype of evaluation.")
    precision: Precision = Field(description="The coarser precision of both sides.")
    limits: Limits | None = Field(None, description="What was allowed; null if nothing was measured.")
    figures: Figures | None = Field(None, description="The server against the reference.")
    control: Figures | None = Field(None, description="The same server without the adapter, which must differ.")
    noise: Figures | None = Field(None, description="The reference against itself in the server's dtype.")
    suites: dict[str, SuiteScores] = added_field(
        {}, description="Suites scored through the server, where its tokens are within the limits."
    )

    @property
    def proved(self) -> bool:
        return self.outcome == "proved"


def judge(figures: Figures, control: Figures, limits: Limits) -> tuple[Outcome, tuple[str, ...]]:
    """The outcome, and why it is not ``proved``."""
    different = [*_other_prompts(figures), *_beyond(figures, limits)]
    if different:
        return "failed", tuple(different)
    lacking = [*_lacking(figures), *(() if [*_beyond(control, limits)] else (_ALIKE,))]
    return ("not proved", tuple(lacking)) if lacking else ("proved", ())


_ALIKE = "the base without the adapter keeps the limits too, so these prompts do not show that the adapter is there"


def _other_prompts(figures: Figures) -> Iterator[str]:
    if figures.other_ids:
        yield f"{figures.other_ids} of {figures.prompts} prompts have other token ids than were evaluated"


def _beyond(figures: Figures, limits: Limits) -> Iterator[str]:
    # Negated, so that NaN counts as beyond.
    if limits.argmax is not None and not figures.argmax >= limits.argmax:
        yield f"the likeliest token is the same in {figures.argmax:.4f} of places, and not in {limits.argmax:g}"
    if limits.kl is not None and not figures.kl <= limits.kl:
        yield f"the mean KL divergence is {figures.kl:.3g}, where {limits.kl:.3g} are allowed"
    if limits.p99 is not None and not figures.p99 <= limits.p99:
        yield f"99 of 100 log-probabilities differ by up to {figures.p99:.3g}, where {limits.p99:.3g} are allowed"
    if limits.max is not None and not figures.max <= limits.max:
        yield f"a log-probability differs by {figures.max:.3g}, where {limits.max:.3g} are allowed"


def _lacking(figures: Figures) -> Iterator[str]:
    if figures.prompts < MIN_PROMPTS:
        yield f"{figures.prompts} prompts are too few; {MIN_PROMPTS} are the least"
    if figures.tokens < MIN_TOKENS:
        yield f"{figures.tokens} tokens are too few; {MIN_TOKENS} are the least"
    if figures.missing:
        yield f"the server does not name the reference's token in {figures.missing} of {figures.tokens} places"
