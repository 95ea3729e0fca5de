"""A server's tokens compared with the reference's, place by place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.serving.parity.figures import Figures
from ft_resources.errors import UserError
from ft_resources.serving.server import Token

LIKELIEST = 20
"""Number of log-probabilities requested per token: vLLM's default maximum."""
# float32 probabilities sum to 1 only within this, so a smaller remainder means nothing.
_REMAINDER = 1e-7

Logprobs = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """One place: whether the likeliest tokens agree, the KL divergence, and the difference in the log-probability of
    the reference's token.

    ``missing``: the server did not list that token; then ``difference`` is a lower bound.
    """

    agrees: bool
    kl: float
    difference: float
    missing: bool


def compare(reference: Logprobs, token: int, found: Token) -> Place:
    """Compare one place: the reference's log-probabilities [vocabulary] and its ``token``, and the server's token.

    Raises UserError if the server gave no log-probabilities, or some that are not finite.
    """
    values = [*found.top.values(), found.logprob]
    if not found.top or not all(value is not None and np.isfinite(value) for value in values):
        raise UserError(
            "the server gives no finite log-probabilities of its likeliest tokens",
            where="logprobs",
            remedy=f"Start it so that it allows {LIKELIEST} of them.",
        )
    missing = token not in found.top
    theirs = min(found.top.values()) if missing else found.top[token]
    return Place(
        agrees=int(reference.argmax()) == found.id,
        kl=divergence(reference, found.top),
        difference=abs(float(reference[token]) - theirs),
        missing=missing,
    )


def divergence(reference: Logprobs, top: Mapping[int, float]) -> float:
    """KL divergence of the server's distribution from the reference's, over its likeliest tokens and the remainder.

    Merging tokens can only lower it. Computed as the sum of ``p log(p/q) - p + q``, whose terms are never negative, so
    that sums which rounding keeps from 1 do not matter.
    """
    p = _with_remainder(np.exp(reference[list(top)].astype(np.float64)))
    q = _with_remainder(np.exp(np.array(list(top.values()), np.float64)))
    return float((p * np.log(p / q) - p + q).sum())


def summarise(prompts: Sequence[Sequence[Place]], *, other_ids: int) -> Figures:
    """The figures over all prompts' places; there is at least one."""
    places = [place for prompt in prompts for place in prompt]
    differences = np.array([place.difference for place in places])
    return Figures(
        prompts=len(prompts),
        other_ids=other_ids,
        tokens=len(places),
        equal=sum(all(place.agrees for place in prompt) for prompt in prompts),
        argmax=sum(place.agrees for place in places) / len(places),
        kl=sum(place.kl for place in places) / len(places),
        p99=float(np.quantile(differences, 0.99, method="higher")),
        max=float(differences.max()),
        missing=sum(place.missing for place in places),
    )


def _with_remainder(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    tiny = np.finfo(np.float64).tiny
    return np.maximum(np.append(shares, max(_REMAINDER, 1.0 - float(shares.sum()))), tiny)
