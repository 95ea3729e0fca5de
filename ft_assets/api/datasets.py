"""Dataset versions: add and curate them, show their reports, approve held ones."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ft_assets.api.defaults import (
    Known,
    Orchestrator,
    actor_or_user,
    orchestrator_or_default,
    store_or_default,
    tenants_or_default,
)
from ft_assets.api.memory_rows import takes_rows
from ft_assets.api.own_keys import own_dataset, own_name
from ft_assets.control import identity
from ft_assets.control.identity.held_out import settle_held_out
from ft_assets.control.identity.review import Review, ReviewRecord, review_of
from ft_assets.control.identity.review import approve as record_approval
from ft_assets.control.lines.walls import walls_of_dataset
from ft_assets.control.registry.adding import add_dataset as add_to_store
from ft_assets.control.registry.folders import files_of
from ft_assets.control.registry.versions import DatasetVersion
from ft_assets.records.names import DATASET
from ft_assets.records.tombstones import require_dataset_alive
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.settings.keys import DatasetKey
from ft_assets.settings.tenants import TenantsFile
from ft_assets.workers.datasets.looks import NearRow, VersionDiff
from ft_assets.workers.datasets.reporting.reasons import reason_words
from ft_assets.workers.libraries import COMPILES
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.errors import CorruptArtifact, Deleted, HeldForReview, MissingInput, UserError
from ft_resources.execution import Execution
from ft_resources.launchers.base import Launcher
from ft_resources.launchers.choice import make_launcher
from ft_resources.lazy import load
from ft_resources.outcomes import POLICIES, Outcome
from ft_resources.store import Store
from ft_resources.work import WorkRequest


@dataclass(frozen=True, kw_only=True)
class DatasetReport:
    """What curation made of a version: the artifact with its facts, and the state of its review."""

    key: str
    artifact: Artifact
    review: Review

    @property
    def left_out(self) -> list[tuple[str, int]]:
        """The number of rows left out for each reason, the most frequent reason first."""
        dropped = sorted(self.artifact.facts["dropped"].items(), key=lambda item: -item[1])
        return [(reason_words(reason), count) for reason, count in dropped]


@dataclass(frozen=True, kw_only=True)
class ListedDataset:
    """A version, its state and its record.

    ``state`` is ``accepted``, ``held``, ``approved``, ``not curated``, ``curation failed``, ``cannot be curated``,
    ``damaged`` or ``deleted``; ``why`` explains it in a sentence, if needed; for a held version it is the first reason.
    """

    key: DatasetKey
    state: str
    why: str
    record: dict[str, Any]


@takes_rows
def add_dataset(
    source: Path | str | Sequence[Path | str],
    name: str,
    *,
    policy: Path | str | DatasetPolicy | None = None,
    validation: Sequence[Path | str] = (),
    holdout: Sequence[Path | str] = (),
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    actor: str = "",
    orchestrator: Orchestrator | None = None,
) -> DatasetVersion:
    """Add files, or splits as ``hub:org/name@revision#split``, as the next version of ``name`` (``tenant.name``).

    ``source`` may also be rows in memory: dicts, a ``datasets.Dataset``, or a data frame of pandas or polars.
    The same bytes with the same policy are the same version; ``created`` is False then. ``validation`` and ``holdout``
    are rows that the tenant sets aside; ``policy`` is a ``dataset.yaml``. ``warnings`` of the result name fields that
    seem to matter, such as ``score``, and are not used, ``walls`` what keeps results of it out of production. Raises
    BadData with file, row and field, BadRecipe for the policy, UserError for the name, StoreUnavailable; nothing is
    stored then.
    """
    store = store_or_default(store, create=True)
    rules = Path(policy) if isinstance(policy, str) and policy else policy or None
    added = add_to_store(
        store,
        tenants_or_default(tenants),
        source,
        own_name(name),
        rules,
        actor=actor_or_user(actor),
        validation=validation,
        holdout=holdout,
    )
    shown, key = orchestrator_or_default(orchestrator), str(added.key)
    shown.show_keys(dataset=key)
    raw = identity.raw_dataset(Artifacts(store), key)
    shown.show_artifacts([Known(asset="raw_dataset", keys=(key,), artifact=raw, above={})])
    return replace(added, walls=walls_of_dataset(Artifacts(store), key))


def approve_dataset(
    key: str,
    *,
    note: str,
    store: Store | None = None,
    actor: str = "",
    orchestrator: Orchestrator | None = None,
) -> tuple[ReviewRecord, bool]:
    """Approve a held version after a review of its report; the record names the actor and is permanent.

    The second value says whether Dagster shows it by now. The first approval stands: compare ``actor`` and ``note``.
    Raises UserError for a version that is not held, and without a note; MissingInput for one that is not curated.
    """
    artifacts, key = Artifacts(store_or_default(store)), own_dataset(key)
    record = record_approval(artifacts, key, actor=actor_or_user(actor), note=note)
    return record, orchestrator_or_default(orchestrator).show_review(artifacts, key)


def dataset_report(key: str, *, store: Store | None = None) -> DatasetReport:
    """What curation made of a version. Raises UserError for an unknown key, MissingInput where it is not curated."""
    artifacts, key = Artifacts(store_or_default(store)), own_dataset(key)
    return DatasetReport(key=key, artifact=identity.dataset(artifacts, key), review=review_of(artifacts, key))


def diff_datasets(older: str, newer: str, *, store: Store | None = None) -> VersionDiff:
    """Rows that were added, removed, changed or moved to another split between two curated versions.

    Raises UserError for an unknown key, MissingInput for a version that is not curated.
    """
    artifacts = Artifacts(store_or_default(store))
    with TemporaryDirectory(prefix="ft-diff-") as scratch:
        files = [_sides(artifacts, key, Path(scratch)) for key in (older, newer)]
        # It needs pyarrow and a kernel, which listing versions should not have to import.
        found: VersionDiff = load("ft_assets.workers.datasets.version_diff:diff_versions")(*files)
        return found


def near_rows(
    key: str, text: str, *, threshold: float = 0.5, top: int = 10, store: Store | None = None
) -> list[NearRow]:
    """The ``top`` rows of a curated version that are at least ``threshold`` similar to ``text``, the nearest first.

    Texts are compared as in curation: the whole row, folded, by its set of character 5-grams. Raises UserError for an
    unknown key, a threshold outside 0.2 to 1, a text without letters or digits, and where the packages of curation are
    not installed; MissingInput for a version that is not curated.
    """
    if not COMPILES:
        raise UserError(
            "similar rows cannot be searched for here: the packages for curation are not installed",
            where="near",
            remedy=(
                "Search where they are installed and the store can be reached: on your own machine, or in the "
                "workers' image."
            ),
        )
    artifacts = Artifacts(store_or_default(store))
    with TemporaryDirectory(prefix="ft-near-") as scratch:
        files = _sides(artifacts, key, Path(scratch))
        found: list[NearRow] = load("ft_assets.workers.datasets.similarity.nearest:nearest_rows")(
            files, text, threshold=threshold, most=top
        )
        return found


def source_files(source: Path) -> tuple[list[Path], str]:
    """The files that ``add_dataset`` takes of a file or folder; and a warning about those left out, or "".

    Raises BadData for a folder without a file that can be read.
    """
    return files_of(source)


def _sides(artifacts: Artifacts, key: str, scratch: Path) -> dict[str, Path]:
    """A curated version's files by split."""
    curated = identity.dataset(artifacts, key)
    return {side: curated.path(f"{side}.parquet", scratch) for side in ("train", "validation", "holdout")}


def curate_dataset(
    key: str,
    *,
    store: Store | None = None,
    actor: str = "",
    launcher: Launcher | None = None,
    orchestrator: Orchestrator | None = None,
    creates_jobs: bool = True,
) -> DatasetReport:
    """Curate a version now, without a recipe, and wait for its report. One that is curated is not curated again.
    Earlier versions that are not curated are curated first: what they hold out stays out of this one's training.

    ``creates_jobs``: whether this process may create Jobs, if workers run on a cluster. Raises UserError for an unknown
    key, and if Jobs are needed that it may not create; BadData for invalid rows.
    """
    store, shown = store_or_default(store), orchestrator_or_default(orchestrator)
    artifacts, launcher = Artifacts(store), launcher or make_launcher()
    execution, actor = Execution(store=store, launcher=launcher), actor_or_user(actor)
    starts = creates_jobs or launcher.remote is None

    def make(request: WorkRequest) -> Artifact:
        # Before an attempt is claimed: it would fail, and be shown as a failed curation.
        if not starts and artifacts.find(request.address) is None:
            raise UserError(
                "it is not curated yet, and this server starts no work on the cluster",
                where=f"dataset {key}",
                remedy=f"Submit it; Dagster's daemon curates it before the training: ft submit {key} RECIPE",
            )
        return execution.run(request, actor=actor).artifact

    settle_held_out(artifacts, key, make, actor=actor)
    curated = make(identity.dataset_request(artifacts, key))
    shown.show_keys(dataset=key)
    shown.show_artifacts([Known(asset="dataset", keys=(key,), artifact=curated, above={})])
    shown.show_review(artifacts, key)
    return dataset_report(key, store=store)


def list_datasets(*, name: str = "", tenant: str = "", store: Store | None = None) -> list[ListedDataset]:
    """The versions of one dataset (``tenant.name``), of one tenant or of all, in order of their keys."""
    store = store_or_default(store)
    artifacts, found = Artifacts(store), []
    for text in DATASET.keys(store):
        key = DatasetKey.parse(text)
        if tenant in ("", key.tenant) and name in ("", f"{key.tenant}.{key.name}"):
            record = DATASET.get(store, text)
            state, why = state_of(artifacts, key)
            found.append(ListedDataset(key=key, state=state, why=why, record=record))
    return sorted(found, key=lambda row: (row.key.tenant, row.key.name, row.key.version))


def state_of(artifacts: Artifacts, key: DatasetKey) -> tuple[str, str]:
    """``state`` and ``why`` of a ``ListedDataset``. One broken record hides no others."""
    try:
        require_dataset_alive(artifacts.store, key)
    except Deleted:
        return "deleted", ""
    except UserError as error:
        return "damaged", error.what
    try:
        return _review_state(artifacts, str(key))
    except CorruptArtifact as error:
        return "damaged", error.what
    except UserError as error:
        return "cannot be curated", error.what


def _review_state(artifacts: Artifacts, dataset_key: str) -> tuple[str, str]:
    """The state of a version's review; if it is not curated, whether curation failed, and why."""
    try:
        review = review_of(artifacts, dataset_key)
        return review.state, review.reasons[0] if review.state == "held" else ""
    except (MissingInput, HeldForReview):
        # Perhaps as a dataset that it mixes in is not there or is held.
        with suppress(MissingInput, HeldForReview):
            attempts = attempts_at(artifacts.store, identity.dataset_request(artifacts, dataset_key).address)
            ending = attempts[-1].ending() if attempts else None
            if ending is not None and ending.outcome not in (Outcome.PREEMPTED, Outcome.CANCELLED):
                return "curation failed", (ending.error or {}).get("what") or POLICIES[ending.outcome].message
        return "not curated", ""
