"""Dataset versions: add them, see what curation made of them, and let held ones through."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ft_assets.api.defaults import (
    Orchestrator,
    actor_or_user,
    orchestrator_or_default,
    store_or_default,
    tenants_or_default,
)
from ft_assets.control import identity
from ft_assets.control.identity.review import Review, ReviewRecord, review_of
from ft_assets.control.identity.review import approve as record_approval
from ft_assets.control.registry.adding import add_dataset as add_to_store
from ft_assets.control.registry.versions import DatasetVersion
from ft_assets.records.names import DATASET
from ft_assets.settings.keys import DatasetKey
from ft_assets.settings.tenants import TenantsFile
from ft_assets.workers.datasets.reporting.reasons import reason_words
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import HeldForReview, MissingInput, UserError
from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True)
class DatasetReport:
    """What curation made of a version: the artifact with its facts, and how it stands with its reviewers."""

    key: str
    artifact: Artifact
    review: Review

    @property
    def left_out(self) -> list[tuple[str, int]]:
        """Why rows were left out, and how many for each reason, the most first."""
        dropped = sorted(self.artifact.facts["dropped"].items(), key=lambda item: -item[1])
        return [(reason_words(reason), count) for reason, count in dropped]


@dataclass(frozen=True, kw_only=True)
class ListedDataset:
    """A version, its state (``accepted``, ``held``, ``approved``, ``not curated`` or ``unreadable``) and its record."""

    key: DatasetKey
    state: str
    record: dict[str, Any]


def add_dataset(
    source: Path | str | Sequence[Path | str],
    name: str,
    *,
    policy: Path | str | None = None,
    validation: Sequence[Path | str] = (),
    holdout: Sequence[Path | str] = (),
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    actor: str = "",
    orchestrator: Orchestrator | None = None,
) -> DatasetVersion:
    """Add files, or splits as ``hub:org/name@revision#split``, as the next version of ``name`` (``tenant.name``).

    The same bytes with the same policy are the same version; ``created`` is False then. ``validation`` and ``holdout``
    are rows that the tenant sets aside; ``policy`` is a ``dataset.yaml``. Raises BadData with file, row and field,
    BadRecipe for the policy, UserError for the name, StoreUnavailable; nothing is stored then.
    """
    store = store_or_default(store, create=True)
    file = Path(policy) if policy else None
    added = add_to_store(
        store,
        tenants_or_default(tenants),
        source,
        name,
        file,
        actor=actor_or_user(actor),
        validation=validation,
        holdout=holdout,
    )
    orchestrator_or_default(orchestrator).show_keys(dataset=str(added.key))
    return added


def approve_dataset(
    key: str,
    *,
    note: str,
    store: Store | None = None,
    actor: str = "",
    orchestrator: Orchestrator | None = None,
) -> tuple[ReviewRecord, bool]:
    """Let a held version through, once its report was looked at; the record names who and stays.

    The second value says whether Dagster shows it by now. The first approval stands: compare ``actor`` and ``note``.
    Raises UserError for a version that is not held, and without a note; MissingInput for one that is not curated.
    """
    artifacts = Artifacts(store_or_default(store))
    record = record_approval(artifacts, key, actor=actor_or_user(actor), note=note)
    return record, orchestrator_or_default(orchestrator).show_review(artifacts, key)


def dataset_report(key: str, *, store: Store | None = None) -> DatasetReport:
    """What curation made of a version. Raises UserError for an unknown key, MissingInput where it is not curated."""
    artifacts = Artifacts(store_or_default(store))
    return DatasetReport(key=key, artifact=identity.dataset(artifacts, key), review=review_of(artifacts, key))


def list_datasets(*, name: str = "", tenant: str = "", store: Store | None = None) -> list[ListedDataset]:
    """The versions of one dataset (``tenant.name``), of one tenant or of all, in order of their keys."""
    store = store_or_default(store)
    artifacts, found = Artifacts(store), []
    for text in DATASET.keys(store):
        key = DatasetKey.parse(text)
        if tenant in ("", key.tenant) and name in ("", f"{key.tenant}.{key.name}"):
            record = store.get_json(DATASET.path(text))
            found.append(ListedDataset(key=key, state=_state_of(artifacts, str(key)), record=record))
    return sorted(found, key=lambda row: (row.key.tenant, row.key.name, row.key.version))


def _state_of(artifacts: Artifacts, dataset_key: str) -> str:
    """One broken record hides no others."""
    try:
        return review_of(artifacts, dataset_key).state
    except (MissingInput, HeldForReview):
        # Not curated, perhaps as a dataset that it mixes in is not there or is held.
        return "not curated"
    except UserError:
        return "unreadable"
