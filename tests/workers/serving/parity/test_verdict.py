"""Figures, limits and the verdict, without any model."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.workers.serving.parity.comparison import compare, divergence, summarise
from ft_assets.workers.serving.parity.figures import Figures
from ft_assets.workers.serving.parity.limits import LIMITS, limits_of, precision_of
from ft_assets.workers.serving.parity.report import judge
from ft_assets.workers.serving.parity.settings import ServerSettings
from ft_resources.errors import UserError
from ft_resources.serving.server import Token


def logprobs(*shares: float) -> np.ndarray:
    return np.log(np.array(shares) / sum(shares)).astype(np.float32)


def figures(**changes: Any) -> Figures:
    """The figures of a server that gives exactly the evaluation's results."""
    same = {"prompts": 50, "other_ids": 0, "tokens": 300, "equal": 50, "argmax": 1.0}
    return Figures(**{**same, "kl": 0.0, "p99": 0.0, "max": 0.0, "missing": 0, **changes})


FAR = figures(equal=0, argmax=0.5, kl=2.0, p99=9.0, max=9.0)


def settings(dtype: str = "float32", weight_bits: int | None = None) -> ServerSettings:
    return ServerSettings(engine="vllm", dtype=dtype, weight_bits=weight_bits)


def test_a_place_counts_agreement_divergence_and_the_references_own_token() -> None:
    reference = logprobs(0.5, 0.3, 0.2)
    same = compare(reference, 0, Token(id=0, logprob=math.log(0.5), top={0: math.log(0.5), 1: math.log(0.3)}))
    assert (same.agrees, same.missing) == (True, False)
    assert same.difference == pytest.approx(0, abs=1e-6)
    assert same.kl == pytest.approx(0, abs=1e-9)

    other = compare(reference, 0, Token(id=1, logprob=math.log(0.5), top={1: math.log(0.5), 0: math.log(0.25)}))
    assert not other.agrees
    assert other.difference == pytest.approx(math.log(2))
    # (0.3, 0.5), (0.5, 0.25), and the remainder (0.2, 0.25).
    expected = 0.3 * math.log(0.3 / 0.5) + 0.5 * math.log(2) + 0.2 * math.log(0.2 / 0.25)
    assert other.kl == pytest.approx(expected)


def test_a_token_that_is_not_named_differs_by_what_it_must_at_least() -> None:
    reference = logprobs(0.5, 0.3, 0.2)
    found = compare(reference, 0, Token(id=1, logprob=math.log(0.9), top={1: math.log(0.9), 2: math.log(0.05)}))
    assert found.missing
    assert found.difference == pytest.approx(math.log(0.5 / 0.05))


@pytest.mark.parametrize(
    "token",
    [
        Token(id=0, logprob=None, top={}),
        Token(id=0, logprob=math.nan, top={0: math.nan}),
        Token(id=0, logprob=-math.inf, top={0: -math.inf}),
        Token(id=0, logprob=-0.1, top={0: -0.1, 1: -math.inf}),
    ],
)
def test_log_probabilities_that_are_absent_or_not_finite_are_refused(token: Token) -> None:
    with pytest.raises(UserError, match="no finite log-probabilities"):
        compare(logprobs(0.9, 0.1), 0, token)


@given(
    st.lists(st.floats(0.001, 1), min_size=4, max_size=30),
    st.lists(st.floats(0.001, 1), min_size=30, max_size=30),
    st.integers(1, 4),
)
def test_joining_tokens_only_lowers_the_divergence(first: list[float], second: list[float], named: int) -> None:
    p, q = logprobs(*first), logprobs(*second[: len(first)])
    whole = float((np.exp(p, dtype=np.float64) * (p.astype(np.float64) - q)).sum())
    found = divergence(p, {number: float(q[number]) for number in range(named)})
    assert -1e-12 <= found <= whole + 1e-6


def test_the_figures_are_of_all_places() -> None:
    reference = logprobs(0.5, 0.3, 0.2)
    good = compare(reference, 0, Token(id=0, logprob=math.log(0.5), top={0: math.log(0.5)}))
    bad = compare(reference, 0, Token(id=1, logprob=math.log(0.5), top={1: math.log(0.5), 0: math.log(0.25)}))
    found = summarise([[good, good, good], [good, bad]], other_ids=1)
    assert (found.prompts, found.other_ids, found.tokens, found.equal, found.missing) == (2, 1, 5, 1, 0)
    assert found.argmax == pytest.approx(0.8)
    assert found.kl == pytest.approx(bad.kl / 5)
    assert found.p99 == found.max == bad.difference


def test_the_precision_is_the_coarser_one() -> None:
    assert precision_of(settings(), "float32") == "float32"
    assert precision_of(settings(), "bfloat16") == "half"
    assert precision_of(settings("float16"), "float32") == "half"
    assert precision_of(settings("float16", 8), "float32") == "8 bits"
    assert precision_of(settings("float32", 4), "float32") == "4 bits"


def test_noise_tightens_the_table_and_never_loosens_it() -> None:
    assert limits_of("half", None) == LIMITS["half"]
    quiet = limits_of("half", figures(kl=2e-5, p99=0.01))
    assert (quiet.kl, quiet.p99, quiet.argmax) == (pytest.approx(8e-5), pytest.approx(0.04), 0.99)
    assert limits_of("half", figures(kl=1.0, p99=1.0)) == LIMITS["half"]
    silent = limits_of("half", figures())
    assert (silent.kl, silent.p99) == (1e-5, 5e-3)


@pytest.mark.parametrize(
    ("changes", "outcome", "words"),
    [
        ({}, "proved", ""),
        ({"other_ids": 1}, "failed", "1 of 50 prompts have other token ids"),
        ({"argmax": 0.999}, "failed", "the same in 0.9990 of places"),
        ({"kl": 2e-5}, "failed", "the mean KL divergence is 2e-05"),
        ({"p99": 0.006, "max": 0.006}, "failed", "99 of 100"),
        ({"max": 3e-5}, "failed", "a log-probability differs by 3e-05"),
        ({"prompts": 19}, "not proved", "19 prompts are too few"),
        ({"tokens": 99}, "not proved", "99 tokens are too few"),
        ({"missing": 1}, "not proved", "the reference's token in 1 of 300 places"),
    ],
)
def test_each_limit_decides_alone(changes: dict[str, Any], outcome: str, words: str) -> None:
    found, reasons = judge(figures(**changes), FAR, LIMITS["float32"])
    assert found == outcome
    assert words in "; ".join(reasons)
    assert bool(reasons) == (outcome != "proved")


def test_a_control_within_the_limits_proves_nothing_and_does_not_hide_a_failure() -> None:
    assert judge(figures(), figures(), LIMITS["float32"])[0] == "not proved"
    assert judge(figures(max=1.0), figures(), LIMITS["float32"])[0] == "failed"


def test_four_bits_are_reported_and_still_tell_a_lost_adapter() -> None:
    flipped = figures(argmax=0.97, kl=0.02, p99=2.7, max=2.7)
    assert judge(flipped, FAR, LIMITS["4 bits"])[0] == "proved"
    assert judge(FAR, FAR, LIMITS["4 bits"])[0] == "failed"


def test_other_settings_have_another_digest() -> None:
    assert settings().digest == settings().digest
    others = {settings("float16").digest, settings(weight_bits=8).digest, settings().digest}
    with_option = settings().model_copy(update={"options": {"--max-loras": "8"}})
    assert len({*others, with_option.digest}) == 4
