"""The part of an evaluation in which judges compare answers: to the holdout, or to a suite of golden prompts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import TypeAdapter

from ft_assets.evals.holdout import HoldoutScore
from ft_assets.evals.holdout_rows import HoldoutRow, answer_place, read_records
from ft_assets.evals.preferences.comparison import Contest, Preferences, judge_contests
from ft_assets.evals.preferences.endpoint import EndpointJudge
from ft_assets.evals.preferences.hosts import JudgeHost, allowed_host
from ft_assets.evals.preferences.judge import JUDGE_INPUT, Judge
from ft_assets.evals.preferences.local import LocalJudge
from ft_assets.evals.preferences.neutrality import names_of_base, require_neutral, writers_of
from ft_assets.evals.preferences.prompt import PROMPT
from ft_assets.evals.preferences.saved import SavedJudgements
from ft_assets.evals.suite_comparison import ComparedSuite, asked_suites
from ft_assets.evals.suites import TASK_FILE, read_task
from ft_assets.packs.format.layout import Form
from ft_assets.recipes.acceptance import EvaluationSettings
from ft_assets.recipes.judges import JudgeModel
from ft_resources.artifacts import Artifact
from ft_resources.errors import BadData, UserError
from ft_resources.worker_context import WorkContext

_HOSTS = TypeAdapter(tuple[JudgeHost, ...])


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenJudge:
    """A judge that may judge here; ``identity`` says which one it is and what it is shown."""

    name: str
    judge: Judge
    identity: dict[str, Any]


def open_judges(context: WorkContext, settings: EvaluationSettings) -> list[OpenJudge]:
    """The judges of the recipe, none where it names none; before models are loaded, as this may refuse.

    Raises UserError for a host or key that the platform does not allow, a key that is not there, and a judge of the
    base's or the data's family.
    """
    if settings.judge is None:
        return []
    hosts = _HOSTS.validate_python(context.runtime.get("judge_hosts", ()))
    base = names_of_base(context.input("base"))
    writers = writers_of(context.artifacts, context.input("dataset"))
    found = []
    for place, model in enumerate(settings.judge.models):
        local = context.input(f"{JUDGE_INPUT}{place}") if model.is_local else None
        require_neutral(model, _names(local) if local else [], base=base, written_by=writers)
        found.append(_open(context, model, local, place, hosts, settings.seed))
    return found


def judge_answers(
    context: WorkContext,
    settings: EvaluationSettings,
    judges: Sequence[OpenJudge],
    holdout: tuple[Sequence[HoldoutRow], Sequence[HoldoutScore], Sequence[HoldoutScore]],
    suites: Sequence[ComparedSuite],
) -> list[Preferences]:
    """What each judge of the recipe says of base and candidate, nothing where it names none.

    The answers are those of the holdout's metrics, or of a suite: one engine, template and seed, greedy.

    Args:
        holdout: its rows, and what base and candidate answered.
        suites: those that both were asked.

    Raises BadData where the holdout asks for no answers, UserError for a judge that cannot be asked as it is set up and
    for a baseline without answers, JudgeUnavailable.
    """
    if settings.judge is None:
        return []
    prompts = settings.judge.prompts
    contests = _of_holdout(context, *holdout) if prompts == "holdout" else _of_suite(context, prompts, suites)
    if not contests:
        raise BadData(
            f"there is no answer to {prompts}, so there is nothing to judge",
            where="evaluation.judge",
            remedy="Use a recipe without a judge for texts, or let it judge golden prompts.",
        )
    contests = contests[: settings.judge.max_prompts]
    return [
        judge_contests(
            each.name,
            each.judge,
            contests,
            SavedJudgements(context, each.identity),
            seed=settings.seed,
            report=partial(context.progress, f"judge {number}"),
        )
        for number, each in enumerate(judges, start=1)
    ]


def _of_suite(context: WorkContext, key: str, suites: Sequence[ComparedSuite]) -> list[Contest]:
    """The prompts of the suite ``key`` that both answered, those with a right answer first."""
    suite = next((each for each in suites if each.key == key), None)
    if suite is None:
        raise UserError(
            f"nobody was asked the prompts of {key}",
            where="evaluation.judge.prompts",
            remedy="Name the suite in evaluation.suites too.",
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


def _of_holdout(
    context: WorkContext,
    rows: Sequence[HoldoutRow],
    base: Sequence[HoldoutScore],
    candidate: Sequence[HoldoutScore],
) -> list[Contest]:
    """The rows that ask for an answer, in their (hashed) order, with the whole conversation before it."""
    dataset = context.input("dataset")
    form: Form = dataset.facts.get("form", "chat")
    if form == "text":
        return []
    wanted = {row.id for row in rows if row.prompt}
    before: dict[str, tuple[tuple[str, str], ...]] = {}
    for record in read_records(dataset.path("holdout.parquet", context.scratch), form):
        if record["id"] in wanted:
            turns = record["messages"][: answer_place(record["messages"])]
            before[record["id"]] = tuple((str(turn["role"]), str(turn["content"])) for turn in turns)
    return [
        Contest(id=row.id, conversation=before[row.id], base=ours.answer, candidate=theirs.answer)
        for row, ours, theirs in zip(rows, base, candidate, strict=True)
        if row.prompt
    ]


def _open(
    context: WorkContext,
    model: JudgeModel,
    local: Artifact | None,
    place: int,
    hosts: Sequence[JudgeHost],
    seed: int,
) -> OpenJudge:
    shown = {"prompt": PROMPT, "seed": seed, "max_new_tokens": model.max_new_tokens}
    judge: Judge
    if local is None:
        judge = EndpointJudge(model, allowed_host(model, hosts), seed=seed)
        identity = {"endpoint": model.endpoint, "model": model.model, **shown}
    else:
        name = f"{JUDGE_INPUT}{place}"
        judge = LocalJudge(lambda: context.folder(name), max_new_tokens=model.max_new_tokens, seed=seed)
        identity = {"digest": local.digest, **shown}
    return OpenJudge(name=model.name, judge=judge, identity=identity)


def _names(judge: Artifact) -> list[str]:
    """What a local judge is called: its source, where it was mirrored, and its architecture."""
    config = json.loads(judge.read("config.json"))
    architectures = config.get("architectures") if isinstance(config, dict) else None
    return [*names_of_base(judge), *(str(each) for each in architectures or [])]
