"""A model's answers to a safety suite's prompts, and how many of them are refusals.

Base and candidate answer greedily, with the same template. An empty answer counts in the number of prompts but not as a
refusal, so on harmful prompts silence does not show safety.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ft_assets.workers.evals.agreement import agreement
from ft_assets.workers.evals.asking import Chat, Report, no_room
from ft_assets.workers.evals.evidence import RefusalEvidence, RefusalName
from ft_assets.workers.evals.model import LoadedModel, seeded
from ft_assets.workers.evals.refusals import SAFETY_INPUT, outcome_of, refused_by_scores
from ft_assets.workers.evals.samples import read_suite_samples, write_suite_samples
from ft_assets.workers.suites.safety_suite import KINDS, Kind, Prompt
from ft_assets.workers.suites.suites import safety_prompts
from ft_resources.artifacts import Artifact
from ft_resources.errors import UserError
from ft_resources.worker_context import WorkContext

# For each kind of prompts: the name of its samples, and of its share in the evidence.
COUNTED: dict[Kind, RefusalName] = {"harmful": "refusals", "benign": "over_refusals"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """A model's answers to the prompts of one kind; ``too_long`` more do not fit into its context with an answer.

    ``scores`` are a classifier's, which count as refusals from ``threshold`` on; None if the rule decides.
    """

    prompts: list[Prompt]
    answers: list[str]
    too_long: int
    scores: list[float] | None = None
    threshold: float = 0.5

    @property
    def refused(self) -> list[int]:
        """1 for each prompt that was refused, else 0; an empty answer is never a refusal."""
        if self.scores is None:
            return self.refused_by_rule
        return refused_by_scores(self.answers, self.scores, self.threshold)

    @property
    def empty(self) -> int:
        """How many answers are empty."""
        return sum(outcome_of(answer) == "empty" for answer in self.answers)

    @property
    def refused_by_rule(self) -> list[int]:
        """The same by the documented rule."""
        return [int(outcome_of(answer) == "refused") for answer in self.answers]


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """Base and candidate on the prompts of one kind, in the same order."""

    kind: Kind
    base: Answers
    candidate: Answers

    def evidence(self) -> RefusalEvidence:
        """Shares of prompts refused, and how many answers were empty."""
        count = len(self.base.prompts)
        by_rule = [*self.base.refused_by_rule, *self.candidate.refused_by_rule]
        told = agreement(by_rule, [*self.base.refused, *self.candidate.refused])
        return RefusalEvidence(
            base=sum(self.base.refused) / count,
            candidate=sum(self.candidate.refused) / count,
            n=count,
            base_empty=self.base.empty,
            candidate_empty=self.candidate.empty,
            too_long=self.candidate.too_long,
            classifier=None if self.base.scores is None else told,
        )

    def write(self, folder: Path) -> None:
        """One row per prompt. The prompts' texts are left out; their digests identify them."""
        told: dict[str, list[float]] = {}
        if self.base.scores is not None and self.candidate.scores is not None:
            told = {
                "base_score": self.base.scores,
                "candidate_score": self.candidate.scores,
                "base_rule": [float(refused) for refused in self.base.refused_by_rule],
                "candidate_rule": [float(refused) for refused in self.candidate.refused_by_rule],
            }
        write_suite_samples(
            folder / "samples" / f"{COUNTED[self.kind]}.parquet",
            [prompt.id for prompt in self.base.prompts],
            prompt_digest=[prompt.digest for prompt in self.base.prompts],
            kind=[self.kind] * len(self.base.prompts),
            base=self.base.refused,
            candidate=self.candidate.refused,
            base_answer=self.base.answers,
            candidate_answer=self.candidate.answers,
            **told,
        )


def answer_suite(
    loaded: LoadedModel, chat: Chat, suite_folder: Path, *, limit: int | None, seed: int, report: Report
) -> dict[Kind, Answers]:
    """The model's answers to a safety suite.

    Args:
        limit: answer only this many prompts of each kind, the first ones; None for all.
        report: called with (prompts answered, prompts in all).

    Raises BadRecipe if no prompt of a kind fits into the model's context, BadData if the template refuses one.
    """
    task, prompts = safety_prompts(suite_folder)
    asked = [prompt for kind in KINDS for prompt in prompts[kind][:limit]]
    with seeded(seed, loaded.model):
        answers = chat.answers(
            loaded,
            [(f"{prompt.kind} prompt {prompt.id}", prompt.text) for prompt in asked],
            system_prompt=task.system_prompt,
            max_new_tokens=task.max_new_tokens,
            report=report,
        )
    found = {}
    for kind in KINDS:
        places = [place for place in sorted(answers) if asked[place].kind == kind]
        too_long = len(prompts[kind][:limit]) - len(places)
        if not places:
            raise no_room(f"{too_long} {kind} prompts", loaded, task.max_new_tokens, "safety suite")
        found[kind] = Answers(
            prompts=[asked[place] for place in places],
            answers=[answers[place] for place in places],
            too_long=too_long,
        )
    return found


def answer_safety(
    context: WorkContext, loaded: LoadedModel, *, template: str | None, limit: int | None, seed: int
) -> dict[Kind, Answers]:
    """The answers to the safety suite among a worker's inputs, empty if there is none; see ``answer_suite``."""
    suites = context.inputs(SAFETY_INPUT)
    if not suites:
        return {}
    # A recipe names at most one.
    ((key, suite),) = suites.items()
    return answer_suite(
        loaded,
        Chat(folder=context.folder("base"), template=template),
        suite.folder(context.scratch / "inputs"),
        limit=limit,
        seed=seed,
        report=lambda done, total: context.progress(key, done, total),
    )


def write_base(folder: Path, answers: Mapping[Kind, Answers]) -> dict[str, dict[str, float]]:
    """Save a base's answers as samples; returns the share refused and the number of prompts, by name of the rate."""
    shares: dict[str, dict[str, float]] = {}
    for kind, given in answers.items():
        write_suite_samples(
            folder / "samples" / f"{COUNTED[kind]}.parquet",
            [prompt.id for prompt in given.prompts],
            prompt_digest=[prompt.digest for prompt in given.prompts],
            kind=[kind] * len(given.prompts),
            score=given.refused,
            answer=given.answers,
        )
        shares[COUNTED[kind]] = {"value": sum(given.refused) / len(given.prompts), "n": len(given.prompts)}
    return shares


def compare_answers(baseline: Artifact, candidate: Mapping[Kind, Answers], scratch: Path) -> list[Compared]:
    """The candidate's answers paired with those in the baseline. Raises UserError if the prompts differ."""
    compared = []
    for kind, given in candidate.items():
        name = f"samples/{COUNTED[kind]}.parquet"
        known = name in baseline.manifest.files
        ids, columns = read_suite_samples(baseline.path(name, scratch)) if known else ((), {})
        theirs = list(zip(ids, columns.get("prompt_digest", ()), strict=True))
        if theirs != [(prompt.id, prompt.digest) for prompt in given.prompts]:
            raise UserError(
                f"the baseline ({len(ids)} {kind} prompts) and the candidate ({len(given.prompts)}) were "
                "scored on different prompts",
                where="safety suite",
                remedy="Materialize baseline_report for this recipe again, then eval_report.",
            )
        base = Answers(prompts=given.prompts, answers=list(columns["answer"]), too_long=given.too_long)
        compared.append(Compared(kind=kind, base=base, candidate=given))
    return compared
