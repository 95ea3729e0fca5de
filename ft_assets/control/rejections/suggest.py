"""What to try after a rejection: a pure function from curves, recipe, verdicts and past runs to suggestions.

Each suggestion rests on a figure of this candidate or on an accepted run of the same tenant.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ft_assets.control.rejections.changes import epochs, longer, milder, slower, smaller
from ft_assets.control.rejections.curves import Curves
from ft_assets.control.rejections.past import PastRun, nearest
from ft_assets.control.rejections.registrable import is_registrable
from ft_assets.settings.catalogue.gates.judge import JUDGE
from ft_assets.settings.catalogue.gates.regression import REGRESSION
from ft_assets.settings.catalogue.gates.safety import SAFETY
from ft_assets.settings.catalogue.gates.scores import SCORES
from ft_assets.settings.catalogue.gates.task_gain import TASK_GAIN
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.evals.verdict import Verdict

# Gates that measure ability: a candidate fails them if it learned too little, too much or the wrong thing.
_SKILL = frozenset({TASK_GAIN.name, SCORES.name, JUDGE.name})
# Shares of truncated answers, learned tokens and dropped rows from which a suggestion is made.
_CUT, _LEARNED, _LEFT_OUT = 0.05, 0.1, 0.05
# Shares of clipped steps, and of spikes among them, from which a suggestion is made.
_CLIPPED, _SPIKES = 0.5, 0.02
_FEWEST_SPIKES = 3
_LONGEST_WINDOW = 1_048_576


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """One thing to try: a sentence, its figures, and new values by recipe path; no values if the recipe is not
    what to change."""

    what: str
    why: str
    change: Mapping[str, Any] = field(default_factory=dict)

    def sentence(self) -> str:
        """The suggestion in one line, for records, notices and terminals."""
        changed = ", ".join(f"{path}: {_shown(value)}" for path, value in self.change.items())
        return f"{self.what}{f' ({changed})' if changed else ''}: {self.why}"


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What else is known about the candidate; None means unknown.

    Args:
        line: the candidate's.
        checkpoint_of: the pair whose weights were carried to this base, "" if they were trained on it.
        cut: share of answers truncated at ``max_new_tokens``.
        learned: share of the pack's tokens that carry loss.
        left_out: share of the training rows without an example, such as too long ones.
        scored: holdout rows that were scored; ``held`` are all that the dataset has.
        context: most tokens that the base reads at once.
    """

    line: str = ""
    checkpoint_of: str = ""
    cut: float | None = None
    learned: float | None = None
    left_out: float | None = None
    scored: int | None = None
    held: int | None = None
    context: int | None = None


def suggest(
    curves: Curves,
    recipe: Recipe,
    verdicts: Sequence[Verdict],
    past: Sequence[PastRun] = (),
    observed: Observed | None = None,
    registered: Recipe | None = None,
) -> list[Suggestion]:
    """What to try, the best supported first.

    Args:
        recipe: as it was trained, with every ``auto`` resolved from which a change is computed.
        past: accepted runs of the same tenant, newest first.
        registered: the recipe to be changed, as it was registered; ``recipe`` if not given.

    Never a change that registration would refuse. Empty if no gate was measured: then a report must be made first.
    """
    seen = observed or Observed()
    blocking = {verdict.gate: verdict for verdict in verdicts if not verdict.lets_through}
    if not any(verdict.numbers for verdict in blocking.values()):
        return []
    failed = {gate for gate, verdict in blocking.items() if verdict.outcome == "fail" and verdict.numbers}
    found = [
        *_trained_again(seen),
        *(_of_curves(curves, recipe, failed | ({TASK_GAIN.name} & blocking.keys())) if not seen.checkpoint_of else ()),
        *_of_answers(recipe, blocking, seen),
        *_of_gates(recipe, blocking, failed),
        *_of_samples(recipe, blocking, seen),
        *_of_past(recipe, past, seen),
    ]
    registered = registered or recipe
    found = [_within(each, registered, seen.context) for each in _distinct(found)]
    return [each for each in found if is_registrable(registered, each.change, seen.context)]


def _within(suggestion: Suggestion, registered: Recipe, context: int | None) -> Suggestion:
    """The suggestion; for a recipe from before windows were held against the context, with a window that fits."""
    if not suggestion.change or context is None or registered.packing.max_length <= context:
        return suggestion
    return replace(suggestion, change={"packing.max_length": context, **suggestion.change})


def _trained_again(seen: Observed) -> Iterator[Suggestion]:
    if seen.checkpoint_of:
        yield Suggestion(
            what="train the pair on its new base",
            why=f"its weights were carried from {seen.checkpoint_of} without training",
        )


def _of_curves(curves: Curves, recipe: Recipe, failed: set[str]) -> Iterator[Suggestion]:
    overfit, memorised = curves.overfit(), curves.memorised()
    if overfit:
        fell = f"validation loss was lowest, {overfit.best:.3f}, after step {overfit.step} of {overfit.steps}"
        why = f"it overfits from step {overfit.step}: {fell}, and ended at {overfit.last:.3f}"
        yield Suggestion(what=f"stop at step {overfit.step}", why=why, change={"training.max_steps": overfit.step})
        if recipe.training.keep_best is None or recipe.evaluation.candidate == "last":
            yield Suggestion(
                what="or evaluate the kept weights with the lowest validation loss",
                why=why,
                change={
                    "training.keep_best": recipe.training.keep_best or 3,
                    "evaluation.candidate": "best_validation",
                },
            )
        if gentler := milder(recipe):
            yield Suggestion(what="or reduce memorisation", why=why, change=gentler)
    elif memorised:
        trained, validated = memorised
        yield Suggestion(
            what="train for fewer epochs, and validate often enough to see when to stop",
            why=f"training loss ended at {trained:.3f} and validation loss at {validated:.3f}: it memorised rows",
            change={
                "training.validate_every_steps": max(1, curves.steps // 10),
                **epochs(recipe, 0.5),
            },
        )
    # A candidate that forgets would forget even more.
    unfinished = _unfinished(curves) if failed & _SKILL and REGRESSION.name not in failed else ""
    if unfinished:
        yield Suggestion(what="train longer", why=unfinished, change=longer(recipe, curves.steps))
    # Clipped gradients do not justify a lower rate, with which the same number of steps learns even less.
    yield from _of_jumps(curves, recipe, cut=not unfinished)


def _unfinished(curves: Curves) -> str:
    """Why the training seems to have ended too early; "" if there is no sign of it."""
    if (short := curves.too_short()) is not None:
        fell = f"fell by {short:.1%}" if short > 0 else "did not fall"
        return f"in only {curves.steps} steps, training loss {fell}"
    if (falling := curves.still_falling()) is not None:
        return f"training loss was still falling: by {falling:.1%} in the last tenth of its {curves.steps} steps"
    return ""


def _of_jumps(curves: Curves, recipe: Recipe, *, cut: bool) -> Iterator[Suggestion]:
    spikes = curves.spikes()
    warm = math.ceil(recipe.training.warmup_ratio * curves.steps)
    clipped = curves.clipped(recipe.training.max_grad_norm, after=warm)
    rate = slower(recipe)
    warmer = {"training.warmup_ratio": 0.1} if recipe.training.warmup_ratio < 0.1 else {}
    if len(spikes) >= max(_FEWEST_SPIKES, _SPIKES * curves.steps):
        yield Suggestion(
            what="lower the learning rate and warm up longer",
            why=f"the loss jumped {len(spikes)} times in {curves.steps} steps, first at step {spikes[0]}",
            change=rate | warmer,
        )
    elif cut and clipped > _CLIPPED:
        yield Suggestion(
            what="lower the learning rate",
            why=(
                f"after the warm-up {clipped:.0%} of the gradients had a norm above {recipe.training.max_grad_norm:g} "
                "and were clipped"
            ),
            change=rate,
        )


def _of_answers(recipe: Recipe, blocking: Mapping[str, Verdict], seen: Observed) -> Iterator[Suggestion]:
    if not _SKILL & blocking.keys():
        return
    if seen.cut is not None and seen.cut > _CUT:
        tokens = recipe.evaluation.holdout.max_new_tokens
        yield Suggestion(
            what="allow longer answers, or check that the end of a turn is trained",
            why=f"{seen.cut:.0%} of the candidate's answers on the holdout were cut off at {tokens} tokens",
            change={"evaluation.holdout.max_new_tokens": min(32_768, 2 * tokens)},
        )
    if seen.learned is not None and seen.learned < _LEARNED:
        last = recipe.packing.learn == "last_assistant"
        yield Suggestion(
            what="train on every answer of a conversation" if last else "shorten prompts, or give longer answers",
            why=f"only {seen.learned:.1%} of the training tokens count for the loss",
            change={"packing.learn": "all_assistant"} if last else {},
        )
    if seen.left_out is not None and seen.left_out > _LEFT_OUT:
        length = recipe.packing.max_length
        longer = min(_LONGEST_WINDOW, seen.context or _LONGEST_WINDOW, 2 * length)
        yield Suggestion(
            what="raise packing.max_length, or split long rows" if longer > length else "split long rows",
            why=f"{seen.left_out:.1%} of the training rows were left out, mostly as too long for a window"
            + (f" of {length} tokens, the context length of the base" if longer <= length else ""),
            change={"packing.max_length": longer} if longer > length else {},
        )


def _of_gates(recipe: Recipe, blocking: Mapping[str, Verdict], failed: set[str]) -> Iterator[Suggestion]:
    if REGRESSION.name in failed:
        why = f"it forgot: {_first(blocking[REGRESSION.name])}"
        yield Suggestion(what="use a lower learning rate", why=why, change=slower(recipe) | smaller(recipe))
        yield Suggestion(
            what="mix 10 to 20 % of general rows into the dataset (mix, purpose: general, in dataset.yaml)", why=why
        )
    if SAFETY.name in failed:
        why = f"its refusals changed: {_first(blocking[SAFETY.name])}"
        yield Suggestion(
            what="mix refusals of harmful requests, and answers to safe look-alikes, into the dataset (mix, purpose: "
            "safety, in dataset.yaml)",
            why=why,
        )
        yield Suggestion(what="use a lower learning rate, which forgets less", why=why, change=slower(recipe))


def _of_samples(recipe: Recipe, blocking: Mapping[str, Verdict], seen: Observed) -> Iterator[Suggestion]:
    unclear = {gate: verdict for gate, verdict in blocking.items() if verdict.outcome == "inconclusive"}
    for gate in (TASK_GAIN.name, SCORES.name):
        if gate in unclear:
            most = recipe.evaluation.holdout.max_samples
            all_scored = seen.held is None or seen.held <= most
            yield Suggestion(
                what="give the dataset more holdout rows (split.holdout in dataset.yaml)"
                if all_scored
                else "score more of the holdout",
                why=unclear[gate].reason,
                change={} if all_scored else {"evaluation.holdout.max_samples": seen.held},
            )
    if REGRESSION.name in unclear:
        limit = recipe.evaluation.suite_limit
        yield Suggestion(
            what="score all items of the suites" if limit else "use suites with more items",
            why=unclear[REGRESSION.name].reason,
            change={"evaluation.suite_limit": None} if limit else {},
        )
    if SAFETY.name in unclear:
        yield Suggestion(what="use a safety suite with more prompts", why=unclear[SAFETY.name].reason)


def _of_past(recipe: Recipe, past: Sequence[PastRun], seen: Observed) -> Iterator[Suggestion]:
    run = nearest(past, recipe, seen.line)
    if run is None:
        return
    change = run.differences(recipe)
    whose = "of this line" if run.line == seen.line else f"of your line {run.line}"
    if change:
        what, why = "use the settings that passed before", f"{run.recipe} {whose} passed with {run.dataset}"
    else:
        what = "check the changes in the data (ft dataset diff A B)"
        why = f"{run.recipe} {whose} passed with {run.dataset} and the same settings"
    yield Suggestion(what=what, why=why, change=change)


def _first(verdict: Verdict) -> str:
    """The gate's worst finding."""
    return verdict.reason.split("; ")[0]


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, float):
        return f"{value:g}"
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list | tuple) else str(value)


def _distinct(found: Sequence[Suggestion]) -> list[Suggestion]:
    """Without repetitions, and without suggestions whose changes are the same as an earlier one's."""
    kept: list[Suggestion] = []
    for each in found:
        known = [dict(other.change) for other in kept]
        if each not in kept and not (each.change and dict(each.change) in known):
            kept.append(each)
    return kept
