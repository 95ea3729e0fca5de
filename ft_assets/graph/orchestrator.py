"""Dagster as the API knows it (``api/defaults.py``): runs the jobs of submissions, and shows keys and reviews."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import dagster as dg

from ft_assets.api import Known, Launch, end_interrupted
from ft_assets.graph.backfill import start_backfill
from ft_assets.graph.checks.datasets import report_review
from ft_assets.graph.checks.serving import report_parity
from ft_assets.graph.instance import open_instance
from ft_assets.graph.listed_keys import add_keys, list_keys
from ft_assets.graph.run import drive
from ft_assets.graph.shown_artifacts import show_artifacts
from ft_assets.records.submissions import Submission, SubmissionOutcome
from ft_assets.settings import tags
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.store import Store

_ACTIVE = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]


@dataclass
class Dagster:
    """Runs the jobs that the submissions sensor would launch in this process.

    Args:
        given: the Dagster instance that records the runs. Default: that of ``DAGSTER_HOME``.
        on_launch: called with every job before it runs.
    """

    given: dg.DagsterInstance | None = None
    on_launch: Callable[[Launch], None] | None = None

    @cached_property
    def instance(self) -> dg.DagsterInstance:
        return self.given or open_instance()

    def run(self, store: Store, submission: Submission) -> SubmissionOutcome:
        """As the protocol says; a Ctrl-C cancels the submission, and is its outcome."""
        instance = self.instance
        try:
            with _log_to_a_file():
                return drive(store, instance, submission, on_launch=self.on_launch)
        except KeyboardInterrupt:
            # Here the interrupted op has stopped its worker.
            return end_interrupted(submission, store=store)

    def end_runs(self, submission: Submission) -> int:
        filters = [dg.RunsFilter(tags={tags.SUBMISSION: submission.id}, statuses=_ACTIVE)]
        if submission.run_id:
            filters.append(dg.RunsFilter(run_ids=[submission.run_id], statuses=_ACTIVE))
        found = {run.run_id: run for chosen in filters for run in self.instance.get_runs(filters=chosen)}
        # A run in somebody's terminal has no process that Dagster could end; it ends as its worker is stopped.
        ended = (self.instance.run_coordinator.cancel_run(key) for key, run in found.items() if not _foreground(run))
        return sum(ended)

    def show_keys(self, *, dataset: str = "", recipe: str = "") -> None:
        list_keys(self.instance, dataset=dataset, recipe=recipe)

    def show_all_keys(self, *, datasets: Sequence[str], recipes: Sequence[str]) -> int:
        added = 0
        for dimension, keys in (("dataset", datasets), ("recipe", recipes)):
            missing = sorted(set(keys) - set(self.instance.get_dynamic_partitions(dimension)))
            add_keys(self.instance, dimension, missing)
            added += len(missing)
        return added

    def backfill(self, datasets: Sequence[str], recipes: Sequence[str], allow_pairs: int) -> str:
        return start_backfill(self.instance, datasets, recipes, allow_pairs)

    def show_artifacts(self, known: Iterable[Known]) -> int:
        return show_artifacts(self.instance, known)

    def show_review(self, artifacts: Artifacts, dataset: str) -> bool:
        return report_review(self.instance, artifacts, dataset)

    def show_parity(self, artifacts: Artifacts, adapter: Artifact) -> bool:
        return report_parity(self.instance, artifacts, adapter)


@contextmanager
def _log_to_a_file() -> Iterator[None]:
    """Dagster's own log of runs in this process goes to ``foreground.log`` beside its state, and to the run's page in
    the UI as always: it is for who looks into a run, and too much for who waits for it."""
    with ExitStack() as stack:
        if state := os.environ.get("FT_STATE"):
            # Whoever brings an instance of their own may not have made the folder.
            Path(state).mkdir(parents=True, exist_ok=True)
            log = stack.enter_context((Path(state) / "foreground.log").open("a", encoding="utf-8"))
            stack.enter_context(redirect_stderr(log))
        yield


def _foreground(run: dg.DagsterRun) -> bool:
    return tags.FOREGROUND in run.tags
