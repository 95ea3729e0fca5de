"""The gate that requires a reason to serve the candidate: it is better than its base at the tenant's task."""

from collections.abc import Mapping

from ft_assets.settings.catalogue.gates.task_gain import TASK_GAIN, TaskGainGate
from ft_assets.workers.evals.evidence import LOSS, PERPLEXITY, PREFERENCE_ACCURACY, MetricEvidence
from ft_assets.workers.evals.verdict import EPSILON, MIN_ROWS, Finding, Numbers, Verdict, interval_numbers, more

# Gain required of a share whose base is 0, where a relative gain is undefined; a fall by as much is clear.
ABSOLUTE_FLOOR = 0.05
# A gain of this size (or of the required one, if larger) may not fail by bad luck: if the sample does not exclude it, a
# shortfall is inconclusive.
CLEAR_GAIN = 0.20
# With at most this many rows, right and wrong answers say little, and each row's loss says more.
SMALL_HOLDOUT = 200


def judge_gain(
    measured: MetricEvidence | None,
    gate: TaskGainGate,
    loss: MetricEvidence | None = None,
    graded: Mapping[str, MetricEvidence] | None = None,
) -> Verdict:
    """``task_gain``: the observed gain reaches the minimum and its interval excludes zero.

    Args:
        loss: mean loss of the rows, which decides on a small holdout if the metric itself is inconclusive.
        graded: measures that grade the answers themselves. Where a likelihood decides, a clear fall of one of them
            fails: what the candidate answers got worse.
    """
    if measured is None:
        return Verdict(gate=TASK_GAIN.name, outcome="fail", reason=f"{gate.metric} was not measured on the holdout")
    numbers: dict[str, Numbers] = {gate.metric: _numbers(measured, gate)}
    outcome, reason = _judge(measured, gate)
    text = f"{gate.metric} {measured.base:.3g} → {measured.candidate:.3g} on {measured.n} holdout rows, {reason}"
    small = MIN_ROWS <= measured.n <= SMALL_HOLDOUT and measured.higher_is_better
    if outcome == "inconclusive" and small and loss is not None:
        numbers[LOSS] = _numbers(loss, gate)
        outcome, words = _judge(loss, gate)
        text += (
            f"; the holdout has only {measured.n} rows, so the loss per row decides: {loss.base:.3g} → "
            f"{loss.candidate:.3g}, {words}"
        )
    by_likelihood = LOSS in numbers or gate.metric in (PERPLEXITY, PREFERENCE_ACCURACY)
    for name, each in (graded or {}).items() if outcome == "pass" and by_likelihood else ():
        if _clearly_fell(each):
            numbers[name] = _numbers(each, gate)
            fell = (
                f"{each.base:.3g} → {each.candidate:.3g}, 95% confidence interval of the change "
                f"{each.interval[0]:.3g} to "
            )
            text = f"the answers got worse: {name} {fell}{each.interval[1]:.3g}; {text}"
            outcome = "fail"
    return Verdict(gate=TASK_GAIN.name, outcome=outcome, reason=text, numbers=numbers)


def _clearly_fell(graded: MetricEvidence) -> bool:
    """Whether a share fell by what a gain from 0 must reach, and its interval excludes that it did not fall."""
    return graded.n >= MIN_ROWS and graded.improvement <= EPSILON - ABSOLUTE_FLOOR and graded.interval[1] < 0


def _numbers(measured: MetricEvidence, gate: TaskGainGate) -> Numbers:
    numbers: Numbers = {
        "base": measured.base,
        "candidate": measured.candidate,
        "improvement": measured.improvement,
        "p_value": measured.p_value,
        "min_relative": gate.min_relative,
        **interval_numbers(measured.n, measured.interval),
    }
    return numbers if measured.relative_gain is None else {**numbers, "relative_gain": measured.relative_gain}


def _judge(measured: MetricEvidence, gate: TaskGainGate) -> Finding:
    if measured.n < MIN_ROWS:
        return "inconclusive", f"too few to decide; at least {MIN_ROWS - measured.n} more holdout rows are needed"
    scale, what = _scale(measured)
    if scale is None:
        return "fail", what
    low, high = measured.interval
    gain, least = measured.improvement, gate.min_relative * scale
    if measured.relative_gain is None:
        least = ABSOLUTE_FLOOR
        gained = f"a gain of {gain:.3g} from 0 (required: at least {least:g})"
    else:
        gained = f"a gain of {gain / scale:.1%} {what} (required: at least {gate.min_relative:.1%})"
    between = f"95% confidence interval {low:.3g} to {high:.3g}"
    if gain <= 0 or gain < least - EPSILON:
        clear = max(CLEAR_GAIN * scale, least)
        if high < clear:
            return "fail", gained
        # The interval has to shrink until it excludes the clear gain.
        decide = more(measured.n, high - gain, clear - gain, "rows")
        return (
            "inconclusive",
            f"{gained}, but {measured.n} rows are too few to exclude a larger gain ({between}); {decide}",
        )
    if low > 0:
        return "pass", f"{gained}; the improvement has the {between}"
    decide = more(measured.n, gain - low, gain, "rows")
    return (
        "inconclusive",
        f"{gained}, but the 95% confidence interval ({low:.3g} to {high:.3g}) includes zero; {decide}",
    )


def _scale(measured: MetricEvidence) -> tuple[float | None, str]:
    """The denominator of a relative gain, and its name; None and the reason if no gain is possible."""
    if not measured.higher_is_better:
        return (measured.base, "relative") if measured.base > 0 else (None, "and no value can be below the base's 0")
    if measured.base > 0.5:
        no_error = "and the base has no error left to improve on; choose another metric or a harder holdout"
        return (1 - measured.base, "of the remaining error") if measured.base < 1 else (None, no_error)
    # From 0 the gain is absolute.
    return (measured.base or 1.0), "relative"
