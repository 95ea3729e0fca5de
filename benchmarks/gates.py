"""``python -m benchmarks gates``: how often the gates err, by simulation at named true effects and real suite sizes.

How fast suites are scored is measured by ``eval_engine`` in the same run.

Every simulated candidate goes through the gates' own code. A *false block* is a good candidate that fails, a *false
pass* a bad one that passes. Where a size is too small, good candidates may end inconclusive; the share is shown.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks import eval_engine, ticks
from benchmarks.table import Figure
from ft_assets.settings.catalogue.gates.regression import BenchmarkRegressionGate
from ft_assets.settings.catalogue.gates.safety import SafetyGate
from ft_assets.settings.catalogue.gates.task_gain import TaskGainGate
from ft_assets.workers.evals.evidence import MetricEvidence, RateEvidence, SuiteEvidence, relative_gain
from ft_assets.workers.evals.gate_gain import SMALL_HOLDOUT, judge_gain
from ft_assets.workers.evals.gate_rates import judge_safety
from ft_assets.workers.evals.gate_regression import judge_suites
from ft_assets.workers.evals.paired_comparison import compare_suite
from ft_assets.workers.evals.statistics import Interval, newcombe, studentized, wilson
from ft_assets.workers.evals.verdict import Verdict

SUITES = {
    "MMLU": 14_042,
    "MMLU, 1,500 of it": 1_500,
    "ARC-Challenge": 1_172,
    "HellaSwag, 1,000 of it": 1_000,
    "TruthfulQA": 817,
    "XSTest, safe": 250,
}
GRADED = (50, 250)
HOLDOUTS = (50, 200, 1_000)
PROMPTS = {"AdvBench": 520, "XSTest": 250, "50 prompts": 50}
# Items on which base and candidate differ by chance alone: a tenth, as small steps of training flip about that many.
FLIPS = 0.10
WORST = 0.05
# Simulated candidates: many where one takes microseconds, fewer where each is bootstrapped.
MANY, SOME, FEW = 2_000, 300, 100

Draw = Callable[[np.random.Generator], Verdict]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One true effect on one number of samples."""

    gate: str
    what: str
    effect: str
    good: bool
    n: int
    times: int
    draw: Draw


@dataclass(frozen=True, kw_only=True)
class Rates:
    """How the candidates of a case ended, as shares, and a reason of one that ended inconclusive."""

    passed: float
    failed: float
    inconclusive: float
    words: str


def measure() -> list[Figure]:
    """The error rates and, for each size, how many good candidates it leaves open; scoring beside stock lm-eval;
    what sensors cost."""
    found = [(case, rates_of(case)) for case in cases()]
    blocks = [rates.failed for case, rates in found if case.good]
    passes = [rates.passed for case, rates in found if not case.good]
    figures = [
        _rate("false_block_rate", f"worst share of good candidates that fail ({len(blocks)} cases)", max(blocks)),
        _rate("false_pass_rate", f"worst share of bad candidates that pass ({len(passes)} cases)", max(passes)),
    ]
    for case, rates in found:
        if case.good:
            figures.append(_open(case, rates))
    return [*figures, *eval_engine.figures(), *ticks.measure()]


def cases() -> Iterator[Case]:
    """Every gate at its named effects and sizes."""
    for name, n in SUITES.items():
        for drop in (0.0, 0.04):
            effect = f"a drop of {100 * drop:g} points"
            yield Case(
                gate="regression", what=name, effect=effect, good=drop == 0, n=n, times=MANY, draw=_suite(n, drop)
            )
    for n in GRADED:
        what = f"{n} graded items of which few change"
        yield Case(
            gate="regression",
            what=what,
            effect="a drop of 4 points",
            good=False,
            n=n,
            times=SOME,
            draw=_graded(n, 0.04),
        )
    for n in HOLDOUTS:
        for gain in (0.0, 0.2):
            for what, draw in (
                ("answers, base 0.3", _answers(n, 0.3, gain)),
                ("answers, base 0.7", _answers(n, 0.7, gain)),
                ("perplexity", _perplexity(n, gain)),
            ):
                effect = f"a gain of {gain:.0%}"
                yield Case(
                    gate="task_gain",
                    what=what,
                    effect=effect,
                    good=gain > 0,
                    n=n,
                    times=SOME if n <= SMALL_HOLDOUT else FEW,
                    draw=draw,
                )
    for name, n in PROMPTS.items():
        for refusals in (0.99, 0.90):
            draw = _refusals(n, refusals)
            effect = f"refusals of {refusals:g}"
            yield Case(gate="safety", what=name, effect=effect, good=refusals > 0.95, n=n, times=MANY, draw=draw)


def rates_of(case: Case) -> Rates:
    """Simulate a case; seeded by what it is."""
    generator = np.random.default_rng([case.n, case.times, *case.what.encode(), *case.effect.encode()])
    verdicts = [case.draw(generator) for _ in range(case.times)]
    count = Counter(verdict.outcome for verdict in verdicts)
    words = next((verdict.reason for verdict in verdicts if verdict.outcome == "inconclusive"), "")
    shares = {outcome: count[outcome] / case.times for outcome in ("pass", "fail", "inconclusive")}
    return Rates(passed=shares["pass"], failed=shares["fail"], inconclusive=shares["inconclusive"], words=words)


def _suite(n: int, drop: float, base: float = 0.6) -> Draw:
    """A suite on which the candidate loses ``drop`` in truth, and ``FLIPS`` of the items flip besides."""
    gate = BenchmarkRegressionGate()

    def draw(generator: np.random.Generator) -> Verdict:
        table = _table(generator, n, base, won=FLIPS / 2, lost=FLIPS / 2 + drop)
        interval, before, after = newcombe(*table), (table[0] + table[1]) / n, (table[0] + table[2]) / n
        suite = SuiteEvidence(
            metric="acc",
            base=before,
            candidate=after,
            n=n,
            difference_points=100 * (after - before),
            interval_points=(100 * interval.low, 100 * interval.high),
        )
        return judge_suites({"suite": suite}, gate, ["suite"])

    return draw


def _graded(n: int, drop: float, fall: float = 0.8) -> Draw:
    """A suite with scores between 0 and 1 of which a few items fall by ``fall`` and all others stay."""
    gate = BenchmarkRegressionGate()

    def draw(generator: np.random.Generator) -> Verdict:
        before = generator.uniform(fall, 1.0, n)
        after = before - fall * (generator.random(n) < drop / fall)
        ids = [str(number) for number in range(n)]
        suite = compare_suite("suite", "acc", (ids, before.tolist()), (ids, after.tolist()), seed=1)
        return judge_suites({"suite": suite}, gate, ["suite"])

    return draw


def _answers(n: int, base: float, gain: float) -> Draw:
    """A holdout whose answers and losses gain as much, relative to what there is to gain."""
    rise = gain * (base if base <= 0.5 else 1 - base)
    gate = TaskGainGate()

    def draw(generator: np.random.Generator) -> Verdict:
        table = _table(generator, n, base, won=FLIPS / 2 + rise, lost=FLIPS / 2)
        before, after = (table[0] + table[1]) / n, (table[0] + table[2]) / n
        answers = _metric(before, after, n, newcombe(*table), higher=True)
        verdict = judge_gain(answers, gate)
        if verdict.outcome != "inconclusive" or n > SMALL_HOLDOUT:
            return verdict
        losses = generator.gamma(4, 0.5, n)
        # The factor's mean is 1, so that the gain is what it says.
        changed = losses * (1 - gain) * np.exp(generator.normal(-0.03125, 0.25, n))
        fall = studentized(losses - changed, np.ones(n), seed=1)
        return judge_gain(answers, gate, _metric(losses.mean(), changed.mean(), n, fall, higher=False))

    return draw


def _perplexity(n: int, gain: float) -> Draw:
    """Rows of 5 to 60 tokens whose losses fall by what lowers perplexity by ``gain``."""
    gate = TaskGainGate(metric="perplexity")

    def draw(generator: np.random.Generator) -> Verdict:
        tokens = generator.integers(5, 61, n).astype(float)
        losses = generator.gamma(4, 0.5, n)
        changed = np.maximum(0.0, losses + np.log(1 - gain) + generator.normal(0, 0.25, n))
        before, after = (float(np.exp((tokens * each).sum() / tokens.sum())) for each in (losses, changed))
        nats = studentized(tokens * (losses - changed), tokens, seed=1)
        fall = Interval(low=before * -np.expm1(-nats.low), high=before * -np.expm1(-nats.high))
        return judge_gain(_metric(before, after, n, fall, higher=False), gate)

    return draw


def _metric(base: float, candidate: float, n: int, interval: Interval, *, higher: bool) -> MetricEvidence:
    """The evidence, but for its p-value, which no gate judges by and which takes most of the time."""
    before, after = float(base), float(candidate)
    return MetricEvidence(
        higher_is_better=higher,
        base=before,
        candidate=after,
        n=n,
        improvement=after - before if higher else before - after,
        interval=(float(interval.low), float(interval.high)),
        p_value=1.0,
        relative_gain=relative_gain(before, after, higher_is_better=higher),
    )


def _refusals(n: int, share: float) -> Draw:
    """Harmful prompts refused with this probability; of 250 safe ones, 2 in 100."""
    gate = SafetyGate()

    def draw(generator: np.random.Generator) -> Verdict:
        return judge_safety(_rated(generator.binomial(n, share), n), _rated(generator.binomial(250, 0.02), 250), gate)

    return draw


def _rated(refused: int, n: int) -> RateEvidence:
    interval = wilson(int(refused), n)
    return RateEvidence(value=refused / n, n=n, interval=(interval.low, interval.high))


def _table(
    generator: np.random.Generator, n: int, base: float, *, won: float, lost: float
) -> tuple[int, int, int, int]:
    """How many are right in both, only the base, only the candidate, neither: ``won`` and ``lost`` are shares."""
    both, first, second, neither = generator.multinomial(n, [base - lost, lost, won, 1 - base - won]).tolist()
    return both, first, second, neither


def _rate(key: str, what: str, value: float) -> Figure:
    return Figure(key=key, what=what, ours=value, peer=WORST, peer_is="bound", goal=f"<= {WORST:g}", met=value <= WORST)


def _open(case: Case, rates: Rates) -> Figure:
    """How many good candidates a size leaves open. It must say so, and what would decide."""
    key = f"inconclusive_{case.gate}_{case.what}_{case.n}".lower().replace(" ", "_").replace(",", "")
    told = not rates.words or "would decide" in rates.words or "are needed" in rates.words
    allows = "n allows a decision" if rates.passed >= 1 - WORST else "n is too small: says so"
    what = f"{case.gate}, {case.what}, n = {case.n:,}, {case.effect}: inconclusive"
    return Figure(key=key, what=what, ours=rates.inconclusive, peer=None, peer_is="", goal=allows, met=told)
