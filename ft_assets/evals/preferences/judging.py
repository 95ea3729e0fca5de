"""The part of an evaluation in which judges compare the holdout's answers."""

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
from ft_assets.packs.format.layout import Form
from ft_assets.recipes.acceptance import EvaluationSettings
from ft_assets.recipes.judges import JudgeModel
from ft_resources.artifacts import Artifact
from ft_resources.errors import BadData
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


def judge_holdout(
    context: WorkContext,
    settings: EvaluationSettings,
    judges: Sequence[OpenJudge],
    rows: Sequence[HoldoutRow],
    base: Sequence[HoldoutScore],
    candidate: Sequence[HoldoutScore],
) -> list[Preferences]:
    """What each judge of the recipe says of base and candidate, nothing where it names none.

    The answers are those of the holdout's metrics: one engine, template and seed, greedy. Raises BadData where the
    holdout asks for no answers, UserError for a judge that cannot be asked as it is set up, JudgeUnavailable.
    """
    if settings.judge is None:
        return []
    contests = _contests(context, rows, base, candidate)[: settings.judge.max_prompts]
    if not contests:
        raise BadData(
            "the holdout's rows ask for no answers, so there is nothing to judge",
            where="evaluation.judge",
            remedy="Use a recipe without a judge for texts.",
        )
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


def _contests(
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
