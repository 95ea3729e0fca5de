"""A platform as its sensors see it: tenants, dataset versions, recipes, submissions and runs, all as real records."""

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import dagster as dg

from ft_assets.records.submissions import (
    FIRST_WISH,
    Submission,
    SubmissionOutcome,
    SubmissionStatus,
    submission_id,
)
from ft_assets.settings import tags
from ft_assets.settings.keys import DatasetKey
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.canonical import canonical_json
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from ft_resources.work import WorkRequest
from tests.made import AT, leave


@dataclass(frozen=True, kw_only=True)
class Platform:
    """A store, the tenants file and a Dagster instance, below one folder."""

    folder: Path
    store: Store
    instance: dg.DagsterInstance

    @property
    def tenants_file(self) -> Path:
        return self.folder / "tenants.yaml"


@contextmanager
def empty_platform() -> Iterator[Platform]:
    """Nothing but the project's own ``dagster.yaml``."""
    with tempfile.TemporaryDirectory(prefix="ft-ticks-") as name:
        folder = Path(name)
        (folder / "instance").mkdir()
        open_store(str(folder / "store"), create=True)
        with platform_at(folder) as platform:
            yield platform


@contextmanager
def platform_at(folder: Path) -> Iterator[Platform]:
    """The platform below a folder, as a further process of it."""
    with dg.DagsterInstance.local_temp(str(folder / "instance")) as instance:
        yield Platform(folder=folder, store=open_store(str(folder / "store")), instance=instance)


def leave_trained(artifacts: Artifacts, key: DatasetKey, recipe: str) -> Artifact:
    """An adapter of the pair with its checkpoint, as small as can be."""
    params, files = {"dataset": str(key), "recipe": recipe}, {"rows.jsonl": b"{}"}
    request = WorkRequest(
        asset="checkpoint", tenant=key.tenant, code_version="1", inputs={}, params=params, label=f"{key}|{recipe}"
    )
    checkpoint = leave(artifacts, request, files)
    return leave(artifacts, replace(request, asset="adapter", inputs={"checkpoint": checkpoint.ref}), files)


def add_submission(store: Store, dataset: str, recipe: str, *, adapter: str = "", opened: bool = False) -> Submission:
    """A submission as ``submit`` records it, and its end where it is not open."""
    submission = Submission(
        id=submission_id(dataset, recipe, FIRST_WISH),
        dataset=dataset,
        recipe=recipe,
        actor="benchmark",
        origin="sensor",
        idempotency_key=FIRST_WISH,
        driver="sensor",
        created_at=AT,
    )
    store.create(submission.path, canonical_json(submission.model_dump(mode="json")))
    if opened:
        store.put_json(submission.marker, {"created_at": AT})
        return submission
    status = SubmissionStatus.ACCEPTED if adapter else SubmissionStatus.REJECTED
    outcome = SubmissionOutcome(status=status, adapter=adapter, at=AT)
    path = f"{submission.tenant}/submissions/{submission.id}/outcome.json"
    store.create(path, canonical_json(outcome.model_dump(mode="json")))
    return submission


def start_run(instance: dg.DagsterInstance, job: str, submission: Submission, partition: str) -> None:
    """A run of the submission that is under way."""
    run_tags = {tags.SUBMISSION: submission.id, tags.TENANT: submission.tenant, "dagster/partition": partition}
    instance.add_run(
        dg.DagsterRun(
            job_name=job, run_id=str(uuid.uuid4()), run_config={}, tags=run_tags, status=dg.DagsterRunStatus.STARTED
        )
    )
