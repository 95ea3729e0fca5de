"""Choose the weights that go to the gates: by the checkpoint's own record, or by scoring each on a small suite.

The suite is not one that gates judge by, and shares no item with those (``registry/validation_suite.py``) nor with the
holdout, which is checked here. Scores are saved in the attempt as they come, like those of other suites. They are saved
under the step of their weights, so an attempt that chooses other weights never reuses them.
"""

import gc
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ft_assets.settings.recipe.acceptance import EvaluationSettings
from ft_assets.workers.evals.evidence import Chosen
from ft_assets.workers.evals.fan_out import SuiteJob
from ft_assets.workers.evals.holdout_rows import read_split
from ft_assets.workers.evals.model import NotFinite, require_finite
from ft_assets.workers.evals.samples import write_suite_samples
from ft_assets.workers.evals.selection_rule import (
    SAMPLES,
    VALIDATION_INPUT,
    SuiteChoice,
    Weighed,
    chosen_weights,
    score_column,
)
from ft_assets.workers.evals.suite_saves import SUITES, SuiteSaves
from ft_assets.workers.suites.kinds.registry import require_ready
from ft_assets.workers.suites.overlap import all_texts, shared_items
from ft_assets.workers.suites.score import SuiteScore
from ft_assets.workers.suites.suites import TASK_FILE, read_task, scored_items
from ft_assets.workers.training.kept_weights import Weights, candidate_weights, stored_weights
from ft_resources.artifacts import Artifact
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.worker_context import WorkContext


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The weights to measure, what the report says about their choice (None if there was nothing to choose), and the
    attempt's folder for their suites' scores."""

    weights: Weights
    chosen: Chosen | None
    saves: str = SUITES


def choose_weights(context: WorkContext, settings: EvaluationSettings) -> Choice:
    """The weights that ``evaluation.candidate`` asks for; those of a suite leave ``samples/choice.parquet``.

    Raises UserError for a step whose weights were not kept, if no weights compute finite numbers, or if the suite
    shares items with the holdout, CorruptArtifact for unreadable weights, even if others would be chosen, and what
    scoring a suite raises.
    """
    facts = context.input("checkpoint").facts
    if settings.candidate == "last":
        return Choice(weights=candidate_weights(facts, "last"), chosen=None)
    if settings.candidate != "best_suite":
        try:
            weights = candidate_weights(facts, settings.candidate)
        except ValueError as error:
            remedy = "Name one of these steps; this does not repeat the training."
            raise UserError(str(error), where="evaluation.candidate", remedy=remedy) from error
        return Choice(weights=weights, chosen=Chosen(step=weights.step, steps=int(facts["steps"])))
    stored = stored_weights(facts)
    choice = _weigh(context, settings, stored)
    weights = chosen_weights(stored, choice)
    chosen = Chosen(step=weights.step, steps=int(facts["steps"]), by=choice)
    return Choice(weights=weights, chosen=chosen, saves=_saves_of(weights))


def _weigh(context: WorkContext, settings: EvaluationSettings, stored: list[Weights]) -> SuiteChoice:
    ((key, suite),) = context.inputs(VALIDATION_INPUT).items()
    folder = suite.folder(context.scratch)
    require_ready([read_task(folder / TASK_FILE)])
    _require_apart(context.input("dataset"), context.scratch, key, folder)
    found = {weights.step: _score(context, settings, key, folder, weights) for weights in stored}
    scores = {step: score for step, score in found.items() if score is not None}
    if not scores:
        raise UserError(
            f"all {len(stored)} saved weights produce non-finite numbers",
            where=str(context.input("checkpoint").address),
            remedy="They have probably diverged: lower the learning rate.",
        )
    _write(context.output / "samples" / f"{SAMPLES}.parquet", key, scores)
    first = next(iter(scores.values()))
    return SuiteChoice(
        suite=key,
        metric=first.metric,
        n=first.n,
        weights=tuple(
            Weighed(
                step=weights.step,
                score=scores[weights.step].value if weights.step in scores else None,
                validation_loss=weights.loss,
            )
            for weights in stored
        ),
    )


def _score(
    context: WorkContext, settings: EvaluationSettings, key: str, suite: Path, weights: Weights
) -> SuiteScore | None:
    """The score of ``weights``, saved or computed; None if the weights or their scores are not finite."""
    assert settings.validation_suite is not None
    saves = SuiteSaves.of(context.store, context.spec, folder=_saves_of(weights))
    if (saved := saves.find(key)) is not None:
        return saved
    job = SuiteJob(
        spec=context.spec,
        base=context.folder("base"),
        weights=_folder(context, weights),
        full=context.params["variant"] == "full",
        suites={key: suite},
        seed=settings.seed,
        limit=settings.validation_suite.limit,
        template=context.params["chat_template"],
        engine=settings.engine,
        saves=_saves_of(weights),
    )
    phase = f"{key}, weights after step {weights.step}"
    context.progress(phase)
    loaded = job.load()
    try:
        require_finite(loaded)
        return job.score(loaded, saves, lambda _key, done, total: context.progress(phase, done, total))[key]
    except NotFinite as error:
        print(f"the weights after step {weights.step} are not chosen: {error.what}", flush=True)
        return None
    finally:
        loaded.close()
        # Models contain reference cycles, and the next one needs their memory.
        del loaded
        gc.collect()


def _folder(context: WorkContext, weights: Weights) -> Path:
    try:
        return context.folder("checkpoint", weights.prefix)
    except KeyError as error:
        raise CorruptArtifact(
            f"the checkpoint lists weights after step {weights.step}, but their files are missing",
            where=f"{context.input('checkpoint').address}/{weights.prefix}",
            remedy="Delete the checkpoint's manifest and materialize checkpoint again.",
        ) from error


def _saves_of(weights: Weights) -> str:
    return f"saves/weights/{weights.step:06d}"


def _require_apart(dataset: Artifact, scratch: Path, key: str, suite: Path) -> None:
    """Raise UserError if the suite and the holdout have a question in common."""
    rows = list(read_split(dataset, "holdout", scratch))
    shared = shared_items(scored_items(suite), all_texts(rows))
    if shared:
        raise UserError(
            f"{len(shared)} of its items are also in the dataset's holdout, the first of them is item "
            f"{shared[0]}: the chosen weights would be evaluated on the items used to choose them",
            where=f"evaluation.validation_suite, {key}",
            remedy="Use a suite without them, or let validation loss choose (candidate: best_validation).",
        )


def _write(path: Path, key: str, scores: Mapping[int, SuiteScore]) -> None:
    """One row per item: each weights' score and, if there is one, answer."""
    first = next(iter(scores.values()))
    columns: dict[str, Any] = {}
    for step, score in scores.items():
        if score.item_ids != first.item_ids:
            raise CorruptArtifact(
                f"the weights after step {step} were scored on different items than the earlier ones",
                where=f"suite {key}",
                remedy="Materialize eval_report again.",
            )
        columns[score_column(step)] = score.correct
        if score.said:
            columns[f"answer_{step}"] = [said.answer for said in score.said]
    write_suite_samples(path, first.item_ids, **columns)
