"""The work of ``eval_report``: candidate against base, on general suites and on the tenant's holdout."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ft_assets.settings.recipe.acceptance import EvaluationSettings
from ft_assets.workers.evals.answers import TrainingAnswers
from ft_assets.workers.evals.checkpoint_selection import Choice, choose_weights
from ft_assets.workers.evals.evidence import REPORT, Evidence
from ft_assets.workers.evals.fan_out import SuiteJob, score_suites
from ft_assets.workers.evals.holdout import HoldoutScore, HoldoutScorer
from ft_assets.workers.evals.holdout_rows import form_of, read_split, target_of
from ft_assets.workers.evals.model import LoadedModel, load_model, seeded
from ft_assets.workers.evals.page import evaluation_page
from ft_assets.workers.evals.paired_comparison import HoldoutComparison
from ft_assets.workers.evals.preferences.evaluation import judge_answers, open_judges
from ft_assets.workers.evals.preferences.judged_pairs import SAMPLES, agreement_of
from ft_assets.workers.evals.refusal_classifier import tell_refusals
from ft_assets.workers.evals.refusals import SAFETY_INPUT
from ft_assets.workers.evals.safety import COUNTED, Answers, answer_safety, compare_answers
from ft_assets.workers.evals.samples import write_suite_samples
from ft_assets.workers.evals.suite_comparison import asked_suites, compare_suites
from ft_assets.workers.evals.text_columns import text_evidence, write_text_columns
from ft_assets.workers.evals.text_metrics import LABELS, TEXT_METRICS, require_labels
from ft_assets.workers.libraries import UNUSED, absent, keep_offline
from ft_assets.workers.suites.kinds.registry import require_ready, uses_chat
from ft_assets.workers.suites.safety_suite import Kind
from ft_assets.workers.suites.score import SuiteScore
from ft_assets.workers.suites.suites import TASK_FILE, read_task
from ft_resources.artifacts import Artifact
from ft_resources.canonical import canonical_json
from ft_resources.errors import UserError
from ft_resources.worker_context import WorkContext, WorkResult


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The models' results: the candidate on the suites, both on the holdout, and the seconds spent on each part."""

    suites: dict[str, SuiteScore]
    comparison: HoldoutComparison
    too_long: int
    refusals: dict[Kind, Answers]
    seconds: dict[str, float]


def evaluate(context: WorkContext) -> WorkResult:
    """Score, compare and explain; see ``docs/reference/artifacts.md`` for files and facts.

    The base's suite scores are the baseline report's, item by item; on the holdout it is scored beside the candidate.
    Raises UserError if the baseline does not fit, BadData for a holdout that cannot be scored.
    """
    settings = EvaluationSettings.model_validate_json(canonical_json(context.params["evaluation"]))
    check_baseline(context)
    keep_offline()
    with absent(*UNUSED):
        opened = open_judges(context, settings)
        choice = choose_weights(context, settings)
        measured = _measure(context, settings, choice)
        safety = compare_answers(context.input("baseline"), measured.refusals, context.scratch)
        safety = tell_refusals(context, settings, safety)
        suites = compare_suites(context.input("baseline"), measured.suites, context.scratch, seed=settings.seed)
        judges = judge_answers(context, settings, opened, measured.comparison, suites)
    context.progress("comparing")
    comparison = measured.comparison
    dataset = context.input("dataset")
    texts = _text_columns(settings, comparison, dataset, context.scratch)
    training = TrainingAnswers.of(read_split(dataset, "train", context.scratch))
    never_seen_rate, never_seen = comparison.never_seen(training)
    evidence = Evidence(
        fingerprint=context.spec.address.fingerprint,
        suites={suite.key: suite.evidence for suite in suites if suite.evidence is not None},
        holdout={**comparison.metrics(seed=settings.seed), **text_evidence(texts, seed=settings.seed)},
        rows=len(comparison.rows),
        too_long=measured.too_long,
        majority_rate=comparison.majority_rate(training),
        never_seen_rate=never_seen_rate,
        never_seen=never_seen,
        chosen=choice.chosen,
        safety={COUNTED[each.kind]: each.evidence() for each in safety},
        judges=tuple(each.evidence() for each in judges),
        judges_agree=agreement_of(judges),
    )
    for suite in suites:
        suite.write(context.output)
    for each in safety:
        each.write(context.output)
    for name, preferences in zip(SAMPLES, judges, strict=False):
        preferences.write(context.output / "samples" / f"{name}.parquet")
    ids = [row.id for row in comparison.rows]
    write_suite_samples(context.output / "samples" / "holdout.parquet", ids, **comparison.columns(), **texts)
    (context.output / REPORT).write_bytes(canonical_json(evidence.model_dump(mode="json")))
    report = context.output / "report"
    report.mkdir()
    page = evaluation_page(
        label=context.spec.label,
        evidence=evidence,
        comparison=comparison,
        safety=safety,
        suites=suites,
        judges=judges,
    )
    (report / "report.html").write_text(page, encoding="utf-8")
    (report / "timings.json").write_bytes(canonical_json(measured.seconds))
    return WorkResult(folder=context.output, facts={"summary": summary(evidence)})


def summary(evidence: Evidence) -> dict[str, dict[str, float]]:
    """Only each score's values for base and candidate."""
    return {
        **{key: {"base": suite.base, "candidate": suite.candidate} for key, suite in evidence.suites.items()},
        **{name: {"base": metric.base, "candidate": metric.candidate} for name, metric in evidence.holdout.items()},
        **{name: {"base": each.base, "candidate": each.candidate} for name, each in evidence.safety.items()},
    }


def check_baseline(context: WorkContext) -> None:
    """Raise UserError if the baseline is of another base, other settings, or a suite that has changed since."""
    manifest, ours = context.input("baseline").manifest, context.spec.inputs
    names = ["base", *(name for name in ours if name.startswith(("suite:", "shown:", SAFETY_INPUT)))]
    differing = [
        name for name in names if name not in manifest.inputs or manifest.inputs[name].digest != ours[name].digest
    ]
    settings, evaluation = manifest.identity["params"]["settings"], context.params["evaluation"]
    if (settings["seed"], settings["limit"]) != (evaluation["seed"], evaluation["suite_limit"]):
        differing.append("seed or limit")
    if settings.get("engine") != evaluation.get("engine"):
        differing.append("engine")
    if any(uses_chat(suite.facts.get("kind", "")) for suite in asked_suites(context).values()) and settings[
        "chat_template"
    ] != context.params.get("chat_template"):
        differing.append("chat_template")
    if any(name.startswith(SAFETY_INPUT) for name in ours):
        # Only answers depend on the template, and on how they are judged.
        for name, theirs in (("chat_template", settings["chat_template"]), ("refusals", settings.get("refusals"))):
            if theirs != context.params.get(name) and name not in differing:
                differing.append(name)
    if differing:
        raise UserError(
            f"the baseline was measured with another {', '.join(differing)}",
            where=ours["baseline"].address,
            remedy="Materialize baseline_report for this recipe again, then eval_report.",
        )


def _measure(context: WorkContext, settings: EvaluationSettings, choice: Choice) -> Measured:
    """Load the models once and score them. A full model has its own weights and is loaded after the base."""
    seconds: dict[str, float] = {}
    started = time.monotonic()

    def lap(part: str) -> None:
        nonlocal started
        seconds[part] = round(time.monotonic() - started, 3)
        started = time.monotonic()

    context.progress("loading")
    base_folder = context.folder("base")
    suite_folders = {key: suite.folder(context.scratch) for key, suite in asked_suites(context).items()}
    require_ready(read_task(folder / TASK_FILE) for folder in suite_folders.values())
    final = context.folder("checkpoint", choice.weights.prefix)
    full = context.params["variant"] == "full"
    model = load_model(base_folder, None if full else final, engine=settings.engine)
    dataset = context.input("dataset")
    scorer = HoldoutScorer(
        base_folder,
        chat_template=context.params["chat_template"],
        context_length=model.context_length,
        form=form_of(dataset),
    )
    holdout = dataset.path("holdout.parquet", context.scratch)
    rows, too_long = scorer.read(holdout, max_samples=settings.holdout.max_samples, seed=settings.seed)
    lap("loading")

    def score(loaded: LoadedModel, phase: str) -> list[HoldoutScore]:
        with seeded(settings.seed, loaded.model):
            return scorer.score(
                loaded,
                rows,
                max_new_tokens=settings.holdout.max_new_tokens,
                report=lambda done, total: context.progress(phase, done, total),
            )

    with model.as_base():
        base = score(model, "holdout, base")
    lap("holdout, base")
    # The base is no longer needed, and an unmerged adapter adds a third to the time.
    if full:
        model.close()
        model = load_model(final, base_folder=base_folder, engine=settings.engine)
    else:
        model = model.merged()
    candidate = score(model, "holdout, candidate")
    lap("holdout, candidate")
    suites = score_suites(
        context,
        model,
        SuiteJob(
            spec=context.spec,
            base=base_folder,
            weights=final,
            full=full,
            suites=suite_folders,
            seed=settings.seed,
            limit=settings.suite_limit,
            template=context.params["chat_template"],
            engine=settings.engine,
            saves=choice.saves,
        ),
    )
    lap("suites, candidate")
    template = context.params["chat_template"]
    refusals = answer_safety(context, model, template=template, limit=settings.suite_limit, seed=settings.seed)
    if refusals:
        lap("refusals, candidate")
    comparison = HoldoutComparison(rows=rows, base=base, candidate=candidate)
    return Measured(suites=suites, comparison=comparison, too_long=too_long, refusals=refusals, seconds=seconds)


def _text_columns(
    settings: EvaluationSettings, comparison: HoldoutComparison, dataset: Artifact, scratch: Path
) -> dict[str, list[Any]]:
    """Each row's columns for the text metrics that the recipe asks for; empty if it asks for none.

    Raises UserError for labels if the dataset's answers are not labels.
    """
    wanted = [metric for metric in settings.holdout.metrics if metric in TEXT_METRICS]
    if not wanted or not comparison.asked:
        return {}
    targets = [row.target for row in comparison.rows]
    if set(LABELS) & set(wanted):
        taught = read_split(dataset, "train", scratch)
        require_labels(targets, [target_of(record["messages"]) for record in taught])
    answers = {"base": comparison.base, "candidate": comparison.candidate}
    said = {who: [score.answer for score in scores] for who, scores in answers.items()}
    return write_text_columns(wanted, targets, said)
