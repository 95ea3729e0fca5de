"""The part of an evaluation in which judges compare answers: to the holdout, or to a suite of golden prompts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import TypeAdapter

from ft_assets.records.neutrality import names_of_base, require_neutral, writers_of
from ft_assets.settings.catalogue.forms import FORMS
from ft_assets.settings.judge_hosts import JudgeHost, allowed_host
from ft_assets.settings.recipe.acceptance import EvaluationSettings
from ft_assets.workers.evals.holdout_rows import answer_place, form_of, read_split
from ft_assets.workers.evals.paired_comparison import HoldoutComparison
from ft_assets.workers.evals.preferences.endpoint import EndpointJudge
from ft_assets.workers.evals.preferences.judge import JUDGE_INPUT, Judge
from ft_assets.workers.evals.preferences.judged_pairs import Contest, Preferences, judge_contests
from ft_assets.workers.evals.preferences.local import LocalJudge
from ft_assets.workers.evals.preferences.marks import Marks, marks_of
from ft_assets.workers.evals.preferences.prompt import PROMPT
from ft_assets.workers.evals.preferences.saved import SavedJudgements
from ft_assets.workers.evals.suite_comparison import ComparedSuite, asked_suites
from ft_assets.workers.suites.suites import TASK_FILE, read_task
from ft_resources.artifacts import Artifact
from ft_resources.errors import BadData, UserError
from ft_resources.worker_context import WorkContext

_HOSTS = TypeAdapter(tuple[JudgeHost, ...])


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenJudge:
    """A judge that passed the platform's checks, what it said before, and the marks that it may not read."""

    name: str
    judge: Judge
    saved: SavedJudgements
    marks: Marks


def open_judges(context: WorkContext, settings: EvaluationSettings) -> list[OpenJudge]:
    """The recipe's judges, if any. Called before models are loaded, as it may refuse.

    Raises UserError for a host or key that the platform does not allow, a missing key, and a judge of the same family
    as the base or the data.
    """
    if settings.judge is None:
        return []
    hosts = _HOSTS.validate_python(context.runtime.get("judge_hosts", ()))
    base = names_of_base(context.input("base"))
    writers = writers_of(context.artifacts, context.input("dataset"))
    marks = marks_of(context.input("base"), context.params.get("chat_template"))
    found = []
    identity: dict[str, Any]
    for place, model in enumerate(settings.judge.models):
        name, longest = f"{JUDGE_INPUT}{place}", model.max_new_tokens
        local = context.input(name) if model.is_local else None
        require_neutral(model, _names(local) if local else [], base=base, written_by=writers)
        judge: Judge
        if local is None:
            judge = EndpointJudge(model, allowed_host(model, hosts), seed=settings.seed)
            identity = {"endpoint": model.endpoint, "model": model.model}
        else:
            judge = LocalJudge(partial(context.folder, name), max_new_tokens=longest, seed=settings.seed)
            identity = {"digest": local.digest}
        identity |= {"prompt": PROMPT, "seed": settings.seed, "max_new_tokens": longest}
        seen = marks | marks_of(local) if local else marks
        found.append(OpenJudge(name=model.name, judge=judge, saved=SavedJudgements(context, identity), marks=seen))
    return found


def judge_answers(
    context: WorkContext,
    settings: EvaluationSettings,
    judges: Sequence[OpenJudge],
    holdout: HoldoutComparison,
    suites: Sequence[ComparedSuite],
) -> list[Preferences]:
    """The verdicts of each of the recipe's judges on base and candidate; empty if it names none.

    The answers are those of the holdout's metrics or of a suite: same engine, template and seed, greedy.

    Args:
        suites: those that both models answered.

    Raises BadData if the holdout asks for no answers, UserError for a judge that cannot be asked with its settings and
    for a baseline without answers, JudgeUnavailable.
    """
    if settings.judge is None:
        return []
    prompts = settings.judge.prompts
    contests = _of_holdout(context, holdout) if prompts == "holdout" else _of_suite(context, prompts, suites)
    if not contests:
        raise BadData(
            f"there are no answers to {prompts}, so there is nothing to judge",
            where="evaluation.judge",
            remedy="Use a recipe without a judge for texts, or let it judge golden prompts.",
        )
    contests = contests[: settings.judge.max_prompts]
    return [
        judge_contests(
            each.name,
            each.judge,
            contests,
            each.saved,
            seed=settings.seed,
            report=partial(context.progress, f"judge {number}"),
            marks=each.marks,
        )
        for number, each in enumerate(judges, start=1)
    ]


def _of_suite(context: WorkContext, key: str, suites: Sequence[ComparedSuite]) -> list[Contest]:
    """The prompts of the suite ``key`` that both answered; those with a right answer come first."""
    suite = next((each for each in suites if each.key == key), None)
    if suite is None:
        raise UserError(
            f"no model answered the prompts of {key}",
            where="evaluation.judge.prompts",
            remedy="Also name the suite in evaluation.suites.",
        )
    task = read_task(asked_suites(context)[key].folder(context.scratch) / TASK_FILE)
    system = getattr(task, "system_prompt", None)
    before = (("system", system),) if system is not None else ()
    scored = zip(suite.score.item_ids, suite.score.said, suite.base_answers, strict=True)
    shown = ((name, said, suite.base_shown.get(name)) for name, said in suite.score.shown.items())
    contests = []
    for name, said, answer in (*scored, *shown):
        if answer is None:
            raise UserError(
                f"the baseline has no answer to item {name}",
                where=f"suite {key}",
                remedy="Delete the baseline report's manifest, materialize baseline_report again, then eval_report.",
            )
        conversation = (*before, ("user", said.question))
        contests.append(Contest(id=name, conversation=conversation, base=answer, candidate=said.answer))
    return contests


def _of_holdout(context: WorkContext, holdout: HoldoutComparison) -> list[Contest]:
    """The rows that ask for an answer, in their (hashed) order, with the whole conversation before it."""
    dataset = context.input("dataset")
    if FORMS[form_of(dataset)].plain:
        return []
    wanted = {row.id for row in holdout.rows if row.prompt}
    before: dict[str, tuple[tuple[str, str], ...]] = {}
    for record in read_split(dataset, "holdout", context.scratch):
        if record["id"] in wanted:
            turns = record["messages"][: answer_place(record["messages"])]
            before[record["id"]] = tuple((str(turn["role"]), str(turn["content"])) for turn in turns)
    return [
        Contest(id=row.id, conversation=before[row.id], base=ours.answer, candidate=theirs.answer)
        for row, ours, theirs in zip(holdout.rows, holdout.base, holdout.candidate, strict=True)
        if row.prompt
    ]


def _names(judge: Artifact) -> list[str]:
    """A local judge's names: its source, if it was mirrored, and its architecture."""
    architectures = judge.read_json("config.json").get("architectures")
    return [*names_of_base(judge), *(map(str, architectures) if isinstance(architectures, list) else ())]
