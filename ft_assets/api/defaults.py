"""Defaults of the API's functions: the store, the tenants file, the actor, and the orchestrator that runs the jobs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Protocol

from ft_assets.records.submissions import Submission, SubmissionOutcome
from ft_assets.settings.environment import actor as user
from ft_assets.settings.environment import open_store, prepare_environment
from ft_assets.settings.tenants import TenantsFile, load_tenants
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.store import Store

# Named, not imported: the graph is above the API. Dagster itself finds ``ft_assets.definitions`` in this way.
_ORCHESTRATOR = "ft_assets.graph.orchestrator:Dagster"


@dataclass(frozen=True, kw_only=True)
class Known:
    """The artifact that keys (a dataset's, a recipe's, or both) resolve to now; ``above`` are the upstream ones, by
    asset."""

    asset: str
    keys: tuple[str, ...]
    artifact: Artifact
    above: dict[str, Artifact]


class Orchestrator(Protocol):
    """Runs the jobs that submissions need, and shows the store's contents. The store decides; this only carries out."""

    def run(self, store: Store, submission: Submission) -> SubmissionOutcome:
        """Run the submission's jobs in this process, one after the other, until it has ended.

        Raises HeldForReview, and leaves the submission open, if the dataset needs a review first, and SubmissionPaused
        if a person paused it; UserError for an invalid pair, which ends the submission.
        """
        ...

    def end_runs(self, submission: Submission) -> int:
        """End the submission's queued and running jobs; returns their number."""
        ...

    def show_keys(self, *, dataset: str = "", recipe: str = "") -> None:
        """Show keys, and the pair of both, in the graph; showing one again changes nothing."""
        ...

    def show_all_keys(self, *, datasets: Sequence[str], recipes: Sequence[str]) -> int:
        """The same for many; returns how many were new."""
        ...

    def backfill(self, datasets: Sequence[str], recipes: Sequence[str], allow_pairs: int) -> str:
        """Request every asset of each pair at once; returns the id by which the orchestrator knows it."""
        ...

    def show_artifacts(self, known: Iterable[Known]) -> int:
        """Show artifacts that no job of this orchestrator made; returns how many were new."""
        ...

    def show_review(self, artifacts: Artifacts, dataset: str) -> bool:
        """Show the current state of a dataset version; False if that has to wait for its next job."""
        ...

    def show_parity(self, artifacts: Artifacts, adapter: Artifact) -> bool:
        """Show the current parity proofs of an adapter; False if that has to wait for its next job."""
        ...


def orchestrator_or_default(given: Orchestrator | None) -> Orchestrator:
    """The given one, else Dagster with the instance of ``DAGSTER_HOME``."""
    if given is not None:
        return given
    made: Orchestrator = resolve_name(_ORCHESTRATOR)()
    return made


def store_or_default(given: Store | None, *, create: bool = False) -> Store:
    """The given one, else the store of ``FT_STORE``, else ``.ft/store`` of the project.

    Raises NoStore if it does not exist. ``create`` makes it instead: for calls that add the first things to a store.
    """
    if given is not None:
        return given
    prepare_environment()
    return open_store(create=create)


def tenants_or_default(given: TenantsFile | None) -> TenantsFile:
    """The given one, else the file that ``FT_TENANTS`` names. Raises UserError for one that cannot be read."""
    return load_tenants() if given is None else given


def actor_or_user(given: str) -> str:
    """The given name, else the user of the operating system."""
    return given or user()
