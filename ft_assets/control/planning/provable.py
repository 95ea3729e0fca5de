"""Whether holdout and suites are large enough for the recipe's gates, before anything is trained."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ft_assets.control import identity
from ft_assets.settings.catalogue.gates.regression import REGRESSION, BenchmarkRegressionGate
from ft_assets.settings.catalogue.gates.safety import SAFETY, SafetyGate
from ft_assets.settings.catalogue.gates.task_gain import TASK_GAIN, TaskGainGate
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.recipe.acceptance import GateSettings
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.ungated import NO_GATES
from ft_assets.workers.evals.evidence import PERPLEXITY
from ft_assets.workers.evals.gate_gain import CLEAR_GAIN, SMALL_HOLDOUT
from ft_assets.workers.evals.power import (
    LOSS_SPREAD,
    NATS_SPREAD,
    POWER,
    chance_of_few_faults,
    chance_of_no_drop,
    fall_shown,
    fewest,
    gain_shown,
)
from ft_assets.workers.evals.verdict import MIN_ROWS
from ft_assets.workers.suites.registered import get_suite, items_of, list_suites, suites_of
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import HeldForReview, MissingInput

# True fault rates of a candidate that should pass: harmful prompts answered, and safe ones refused.
_ANSWERED, _REFUSED = 0.01, 0.02
# Here a relative gain is largest in points; a base that scores less, or more, needs more rows.
_BASE = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Provable:
    """What one gate can show on its samples.

    Args:
        on: what is measured, such as a suite's key.
        samples: number of samples, in units of ``unit``.
        needed: about how many would be enough; None if no number would be.
        enough: whether these are.
        hopeless: whether even a good candidate would more often than not be inconclusive.
        shows: what these samples can show, as a clause.
    """

    gate: str
    on: str
    samples: int
    unit: str
    needed: int | None
    enough: bool
    hopeless: bool
    shows: str

    @property
    def in_words(self) -> str:
        """One sentence."""
        need = f"about {self.needed:,} are needed" if self.needed else "no number would be enough"
        few = "" if self.enough else f", too few ({need})"
        return f"{self.gate}, {self.on}: {self.samples:,} {self.unit}{few}; {self.shows}."


def provable(artifacts: Artifacts, dataset_key: str, recipe: Recipe) -> tuple[Provable, ...]:
    """One entry for each thing that ``regression``, ``task_gain`` and ``safety`` will judge; none without gates.

    What is not known yet is left out: suites that are not registered, a holdout whose rows nobody counted. Raises
    UserError for an unknown dataset version.
    """
    gates = recipe.gates
    if gates == NO_GATES:
        return ()
    held = holdout_rows(artifacts, dataset_key)
    rows = [] if held is None else [min(held, recipe.evaluation.holdout.max_samples)]
    # For unpaired data, the thumbs up were not counted.
    unit = "holdout rows (only the liked ones count)" if METHODS[recipe.method].form.answers == 1 else "holdout rows"
    return (*(task_gain(each, gates.task_gain, unit) for each in rows), *suites_shown(artifacts, recipe, gates))


def holdout_rows(artifacts: Artifacts, dataset_key: str) -> int | None:
    """The rows that the version holds out; before it is curated, the policy's share of the uploaded ones, and None
    where the holdout has files of its own or nobody counted."""
    try:
        return int(identity.dataset(artifacts, dataset_key).facts["rows"]["holdout"])
    except (MissingInput, HeldForReview):
        raw = identity.raw_dataset(artifacts, dataset_key)
    params = raw.manifest.identity["params"]
    if "holdout" in params or not raw.facts.get("rows"):
        return None
    return math.floor(params["policy"]["split"]["holdout"] * raw.facts["rows"])


def no_drop(key: str, items: int, gate: BenchmarkRegressionGate) -> Provable:
    """``regression`` on a suite: how often it passes a candidate that is as good as its base."""
    limits = gate.max_drop_points / 100, gate.margin_points / 100
    return _by_chance(
        REGRESSION.name, key, items, "items", "as good as the base", lambda n: chance_of_no_drop(n, *limits)
    )


def task_gain(rows: int, gate: TaskGainGate, unit: str = "holdout rows") -> Provable:
    """``task_gain`` on so many holdout rows, called ``unit``: the smallest gain that they show."""
    small, asked = rows <= SMALL_HOLDOUT, gate.min_relative
    shown = _shown(rows, gate.metric, small=small)
    # A gate that accepts any gain has no smallest one.
    needed = fewest(lambda n: _shown(n, gate.metric, small=small) <= (asked or math.inf) and n >= MIN_ROWS)
    if small and (needed is None or needed > SMALL_HOLDOUT):
        needed = fewest(lambda n: _shown(n, gate.metric, small=False) <= asked)
    over = "" if gate.metric == PERPLEXITY else f" over a base at {_BASE:.0%}"
    says = (
        f"a relative gain of {shown:.0%}{over} is detected with 80% power"
        if rows >= MIN_ROWS
        else "no gain can be detected"
    )
    return Provable(
        gate=TASK_GAIN.name,
        on=gate.metric,
        samples=rows,
        unit=unit,
        needed=needed,
        enough=rows >= MIN_ROWS and shown <= (asked or math.inf),
        hopeless=rows < MIN_ROWS or shown > max(CLEAR_GAIN, asked),
        shows=f"{says}, and the recipe requires {asked:.0%}",
    )


def _shown(rows: int, metric: str, *, small: bool) -> float:
    """The smallest gain, as a share of the base's score, that ``rows`` rows show; ``small``: if losses may decide."""
    if not rows:
        return math.inf
    if metric == PERPLEXITY:
        return -math.expm1(-fall_shown(rows, NATS_SPREAD))
    by_answers = gain_shown(rows) / _BASE
    return min(by_answers, fall_shown(rows, LOSS_SPREAD)) if small else by_answers


def suites_shown(artifacts: Artifacts, recipe: Recipe, gates: GateSettings) -> Iterator[Provable]:
    """What ``regression`` and ``safety`` can show on the recipe's suites, as far as they are registered."""
    limit, registered = recipe.evaluation.suite_limit, set(list_suites(artifacts.store))
    known = [key for key in recipe.evaluation.suites if key in registered]
    for key in suites_of(artifacts.store, known, "suite"):
        items = items_of(artifacts.store, key)
        yield no_drop(key, min(items, limit or items), gates.benchmark_regression)
    if gates.safety is not None:
        for key in suites_of(artifacts.store, known, "safety"):
            yield from _refusals(artifacts, key, limit, gates.safety)


def _refusals(artifacts: Artifacts, key: str, most: int | None, gate: SafetyGate) -> Iterator[Provable]:
    from ft_assets.workers.suites.suites import safety_prompts

    suite = artifacts.get(Address.parse(get_suite(artifacts.store, key).address))
    with TemporaryDirectory(prefix="ft-suites-") as scratch:
        prompts = safety_prompts(suite.folder(Path(scratch)))[1]
    harmful, safe = len(prompts["harmful"][:most]), len(prompts["benign"][:most])
    yield _faults(key, harmful, "harmful prompts", _ANSWERED, 1 - gate.min_refusals, gate.margin)
    yield _faults(key, safe, "safe prompts", _REFUSED, gate.max_over_refusals, gate.margin)


def _faults(key: str, n: int, unit: str, faults: float, limit: float, margin: float) -> Provable:
    who = f"that is wrong on {faults:.0%} of them"
    return _by_chance(SAFETY.name, key, n, unit, who, lambda count: chance_of_few_faults(count, faults, limit, margin))


def _by_chance(gate: str, on: str, n: int, unit: str, who: str, chance: Callable[[int], float]) -> Provable:
    passes = chance(n) if n >= MIN_ROWS else 0.0
    return Provable(
        gate=gate,
        on=on,
        samples=n,
        unit=unit,
        needed=fewest(lambda count: count >= MIN_ROWS and chance(count) >= POWER),
        enough=passes >= POWER,
        hopeless=passes < 0.5,
        shows=f"a candidate {who} passes with a probability of {round(100 * passes)}%",
    )
