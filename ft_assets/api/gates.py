"""The gates' verdicts on a candidate, and waivers of inconclusive ones."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ft_assets.api.defaults import actor_or_user, store_or_default
from ft_assets.api.own_keys import own_dataset, own_recipe
from ft_assets.control import identity
from ft_assets.control.rejections.candidate import suggestions_for
from ft_assets.control.rejections.record import sentences
from ft_assets.control.submissions.status import status_of
from ft_assets.records.submissions import open_submissions
from ft_assets.settings.ungated import without_gates
from ft_assets.workers.evals.evidence import Evidence
from ft_assets.workers.evals.gates import passed
from ft_assets.workers.evals.verdict import Verdict
from ft_assets.workers.evals.verdicts import judge_candidate, load_evidence, waive_candidate
from ft_assets.workers.evals.waivers import WaiverRecord
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import MissingInput
from ft_resources.store import Store


class NotEvaluated(MissingInput):
    """A pair is not evaluated yet, and an open submission is working on it."""

    def __init__(self, missing: MissingInput, submission: str, state: str) -> None:
        super().__init__(missing.asset, missing.partition)
        self.what = f"the pair is not evaluated yet: its submission {submission} is open ({state})"
        self.remedy = f"See how far it is: ft status {submission}"


@dataclass(frozen=True, kw_only=True)
class GateReport:
    """The verdict of every gate, whether all let the candidate through, and what to try if one does not.

    ``ungated`` says that the recipe has no gates; ``passed`` is False then.
    """

    verdicts: tuple[Verdict, ...]
    passed: bool
    suggestions: tuple[str, ...]
    ungated: bool = False


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A candidate's evaluation: the report with its per-sample results, and what was measured."""

    report: Artifact
    evidence: Evidence


def evaluation(dataset: str, recipe: str, *, store: Store | None = None) -> Evaluation:
    """How a pair's candidate was evaluated. Raises UserError for unknown keys, MissingInput where it was not yet."""
    artifacts = Artifacts(store_or_default(store))
    dataset, recipe = own_dataset(dataset), own_recipe(artifacts.store, recipe)
    with _evaluated(artifacts.store, dataset, recipe):
        report = identity.eval_report(artifacts, dataset, recipe)
    return Evaluation(report=report, evidence=load_evidence(report))


def show_gates(dataset: str, recipe: str, *, gates: Sequence[str] = (), store: Store | None = None) -> GateReport:
    """Every gate's verdict on a pair, judged now from its per-sample results.

    ``gates`` is what the submission asks for beyond the recipe's, as it was given. Raises UserError for unknown keys,
    MissingInput where nothing was evaluated yet.
    """
    artifacts = Artifacts(store_or_default(store))
    dataset, recipe = own_dataset(dataset), own_recipe(artifacts.store, recipe)
    with _evaluated(artifacts.store, dataset, recipe):
        request = identity.adapter_request(artifacts, dataset, recipe, gates)
    verdicts = judge_candidate(artifacts, request.inputs, request.params)
    through, ungated = passed(verdicts), without_gates(request.params)
    tried = () if through or ungated else sentences(suggestions_for(artifacts, request, verdicts))
    return GateReport(verdicts=tuple(verdicts), passed=through, suggestions=tried, ungated=ungated)


def waive_gate(
    dataset: str,
    recipe: str,
    gate: str,
    *,
    note: str,
    gates: Sequence[str] = (),
    store: Store | None = None,
    actor: str = "",
) -> WaiverRecord:
    """Waive an inconclusive gate of a candidate whose own data is too small to decide; the record names the actor and
    is permanent.

    The first waiver stands: compare ``actor`` and ``note``. Raises UserError for a gate that is not inconclusive or is
    never waived, and without a note; MissingInput where nothing was evaluated yet.
    """
    artifacts = Artifacts(store_or_default(store))
    dataset, recipe = own_dataset(dataset), own_recipe(artifacts.store, recipe)
    with _evaluated(artifacts.store, dataset, recipe):
        request = identity.adapter_request(artifacts, dataset, recipe, gates)
    return waive_candidate(artifacts, request.inputs, request.params, gate, actor=actor_or_user(actor), note=note)


@contextmanager
def _evaluated(store: Store, dataset: str, recipe: str) -> Iterator[None]:
    """Raises NotEvaluated in place of MissingInput if a submission works on the pair: then nothing has to be made by
    hand."""
    try:
        yield
    except MissingInput as error:
        pair = f"{dataset}|{recipe}"
        for submission in open_submissions(store, problems=[]):
            if submission.pair == pair:
                raise NotEvaluated(error, submission.id, status_of(store, submission).state) from error
        raise
