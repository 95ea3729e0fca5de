"""A platform as its sensors see it: tenants, dataset versions, recipes, submissions and runs, all as real records."""

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from ft_assets import tags
from ft_assets.base_models.lock import BaseLock
from ft_assets.datasets.policy import DatasetPolicy
from ft_assets.keys import DatasetKey
from ft_assets.recipes.models import Recipe
from ft_assets.recipes.register import register_locked
from ft_assets.recipes.strict import parse_strict
from ft_assets.submissions.record import (
    FIRST_WISH,
    Submission,
    SubmissionOutcome,
    SubmissionStatus,
    submission_id,
)
from ft_resources.artifacts import Address, Artifact, Artifacts, FileEntry, InputRef
from ft_resources.canonical import canonical_json, digest
from ft_resources.store import Store

_AT = "2026-01-01T00:00:00.000+00:00"


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
        instance_folder = folder / "instance"
        instance_folder.mkdir()
        with dg.DagsterInstance.local_temp(str(instance_folder)) as instance:
            yield Platform(folder=folder, store=Store(str(folder / "store")), instance=instance)


def add_recipe(store: Store, key: str, content: str = "a") -> None:
    """Register a recipe on a Hub base that is locked to ``content``."""
    recipe = parse_strict(
        Recipe,
        {
            "key": key,
            "base": "hub:org/base@main",
            "variant": "lora",
            "evaluation": {"suites": ["colours.v1"]},
            "gates": {"task_gain": {"metric": "perplexity", "min_relative": 0.05}},
        },
        key,
    )
    files = {"model.safetensors": FileEntry(size=1, sha256=digest(content))}
    lock = BaseLock(
        kind="hub", source="hub:org/base", revision=digest(content)[:40], digest=digest([content, "base"]), files=files
    )
    register_locked(store, recipe, lock, actor="benchmark")


def add_upload(artifacts: Artifacts, tenant: str, folder: Path) -> Artifact:
    """The bytes that all dataset versions of a tenant have here."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.jsonl").write_text('{"prompt": "a", "completion": "b"}\n')
    params = {"files": {"rows.jsonl": digest(tenant)}, "policy": DatasetPolicy().model_dump(mode="json")}
    return publish(artifacts, tenant, "raw_dataset", folder, params=params)


def publish(
    artifacts: Artifacts,
    tenant: str,
    asset: str,
    folder: Path,
    *,
    params: dict[str, Any],
    inputs: dict[str, InputRef] | None = None,
) -> Artifact:
    """A small artifact with a true manifest."""
    given = {name: ref.digest for name, ref in (inputs or {}).items()}
    identity = {"asset": asset, "code_version": "1", "inputs": given, "params": params}
    return artifacts.publish(
        Address(tenant=tenant, asset=asset, fingerprint=digest(identity)),
        folder,
        writer="benchmark",
        identity=identity,
        inputs=inputs,
        facts={"rows": 1},
        actor="benchmark",
    )


def name_version(store: Store, key: DatasetKey, upload: Artifact) -> None:
    """Make ``key`` a version with the upload's bytes."""
    record = {
        "address": str(upload.address),
        "digest": upload.digest,
        "content": digest(str(key)),
        "actor": "benchmark",
        "created_at": _AT,
    }
    store.create_json(f"names/dataset/{key}.json", record)


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
        created_at=_AT,
    )
    store.create(submission.path, canonical_json(submission.model_dump(mode="json")))
    if opened:
        store.put_json(submission.marker, {"created_at": _AT})
        return submission
    status = SubmissionStatus.ACCEPTED if adapter else SubmissionStatus.REJECTED
    outcome = SubmissionOutcome(status=status, adapter=adapter, at=_AT)
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
