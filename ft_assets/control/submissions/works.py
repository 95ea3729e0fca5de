"""The pieces of work of a submission, each with its last attempt, as far as today's inputs determine them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ft_assets.control import identity
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.records.report_pages import pages_of
from ft_assets.records.submissions import Submission
from ft_assets.records.sweep_decision import FINAL, SweepFailed
from ft_assets.settings.catalogue.exports import EXPORTS
from ft_assets.workers.training.telemetry.alerts import OF_THE_RESULT, Alert
from ft_resources.artifacts import Address, Artifacts
from ft_resources.attempts import Attempt, Ending, attempts_at
from ft_resources.errors import BadRecipe, HeldForReview, MissingInput, UserError
from ft_resources.store import Store
from ft_resources.work import WorkRequest

_AFTER_TRIALS = ("checkpoint", "eval_report", "adapter")


@dataclass(frozen=True, kw_only=True)
class Work:
    """One artifact of a submission and its last attempt; ``address`` is None while one of its inputs is missing.

    ``trial`` is the recipe key of a sweep's trial, if it is a trial's training. Of what is done, ``facts`` are its
    facts and ``pages`` what it has for a browser, such as ``report/report.html``.
    """

    asset: str
    trial: str = ""
    address: Address | None = None
    done: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    pages: tuple[str, ...] = ()
    attempt: int = 0
    claimed_at: float = 0.0
    progress: dict[str, Any] = field(default_factory=dict)
    ending: Ending | None = None

    @property
    def running(self) -> bool:
        """Whether a worker is (presumably) working on it."""
        return self.attempt > 0 and not self.done and self.ending is None

    @property
    def alerts(self) -> tuple[str, ...]:
        """Alerts of the training while it runs; once it has ended, those about its result."""
        if self.running:
            return tuple(map(str, self.progress.get("alerts", ())))
        found = (Alert(**alert) for alert in self.facts.get("alerts", ()))
        return tuple(str(alert) for alert in found if alert.kind in OF_THE_RESULT)

    @property
    def lost(self) -> bool:
        """Whether it is a trial with a final ending and no checkpoint: a result of the sweep, not its failure."""
        return bool(self.trial) and not self.done and self.ending is not None and self.ending.outcome in FINAL


def read_works(store: Store, submission: Submission) -> tuple[Work, ...]:
    """The submission's work in order, as far as today's inputs determine it. Raises UserError for broken records."""
    artifacts = Artifacts(store)
    dataset, recipe = submission.dataset, submission.recipe
    requests: dict[str, Callable[[], WorkRequest]] = {
        "dataset": lambda: identity.dataset_request(artifacts, dataset),
        "base_model": lambda: identity.base_model_request(artifacts, recipe),
        "baseline_report": lambda: identity.baseline_report_request(artifacts, recipe),
        "token_pack": lambda: identity.token_pack_request(artifacts, dataset, recipe),
        "reference_logps": lambda: identity.reference_logps_request(artifacts, dataset, recipe),
        "checkpoint": lambda: identity.checkpoint_request(artifacts, dataset, recipe),
        "eval_report": lambda: identity.eval_report_request(artifacts, dataset, recipe),
        "adapter": lambda: identity.adapter_request(artifacts, dataset, recipe, submission.gates),
    }
    if submission.mode == "carry" or not identity.compares(artifacts, recipe):
        del requests["reference_logps"]
    works = {asset: read_work(artifacts, asset, request) for asset, request in requests.items()}
    trials = _read_trials(artifacts, dataset, recipe)
    before = [work for asset, work in works.items() if asset not in _AFTER_TRIALS]
    return (*before, *trials, *(work for asset, work in works.items() if asset in _AFTER_TRIALS))


def _read_trials(artifacts: Artifacts, dataset: str, sweep: str) -> list[Work]:
    """The trainings of a sweep's trials; empty for other recipes."""
    works = []
    for trial in get_recipe(artifacts.store, sweep).trials:
        try:
            work = read_work(
                artifacts, "checkpoint", partial(identity.checkpoint_request, artifacts, dataset, trial.key)
            )
        except BadRecipe:
            # A trial that is impossible with this dataset and base is a result of the sweep.
            work = Work(asset="checkpoint")
        works.append(replace(work, trial=trial.key))
    return works


def read_work(artifacts: Artifacts, asset: str, request: Callable[[], WorkRequest]) -> Work:
    """The work of a request and its last attempt; without an address while one of its inputs is missing."""
    try:
        address = request().address
    except (MissingInput, HeldForReview, SweepFailed):
        return Work(asset=asset)
    attempts = attempts_at(artifacts.store, address)
    found = artifacts.find(address)
    done, facts, pages = (True, found.facts, pages_of(found)) if found else (False, {}, ())
    last = attempts[-1] if attempts else None
    if last is None:
        return Work(asset=asset, address=address, done=done, facts=facts, pages=pages)
    return Work(
        asset=asset,
        address=address,
        done=done,
        facts=facts,
        pages=pages,
        attempt=last.number,
        claimed_at=last.claimed_at(),
        progress=last.progress(),
        ending=last.ending(),
    )


def export_works(store: Store, submission: Submission) -> tuple[Work, ...]:
    """The work of what the recipe exports, once its adapter is made: of each format, and of its evaluation."""
    artifacts = Artifacts(store)
    asked = [EXPORTS[name] for name in get_recipe(store, submission.recipe).recipe.exports]
    if not asked:
        return ()
    try:
        adapter = identity.exported(artifacts, submission.dataset, submission.recipe, submission.gates)
    except (MissingInput, HeldForReview, SweepFailed):
        return ()
    works = []
    for step in {step.name: step for wanted in asked for step in wanted.steps}.values():
        # What cannot be made has no work; its run says why.
        with suppress(UserError):
            work = read_work(artifacts, step.asset, partial(identity.export_request, artifacts, adapter, step))
            works.append(work)
            if step in asked and work.done and work.address is not None:
                made = artifacts.get(work.address)
                again = partial(identity.reevaluation_request, artifacts, adapter, made)
                works.append(read_work(artifacts, "eval_report", again))
    return tuple(works)


def last_attempts(store: Store, submission: Submission) -> Iterator[Attempt]:
    """The last attempt at each artifact of the submission, in work order, and then at its exports."""
    for work in (*read_works(store, submission), *export_works(store, submission)):
        if work.address is not None and work.attempt:
            yield Attempt(store, work.address, work.attempt)


def held_for_review(store: Store, submission: Submission) -> HeldForReview | None:
    """Why the submission waits for a person, and what that person can do; None if it does not."""
    try:
        identity.approved_dataset(Artifacts(store), submission.dataset)
    except HeldForReview as error:
        return error
    except MissingInput:
        pass
    return None
