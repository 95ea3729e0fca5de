"""What workers and people leave in a store, made without doing the work."""

import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ft_assets.control.registry.register import register_locked
from ft_assets.records.submissions import Submission
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.tenants import load_tenants
from ft_assets.workers.base_models.base_lock import BaseLock
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.canonical import digest
from ft_resources.store import Store
from ft_resources.work import WorkRequest, WorkSpec

SOURCE, REVISION = "hub:acme/tiny", "0123abcd"
AT = "2026-01-01T00:00:00.000+00:00"


def leave(
    artifacts: Artifacts,
    request: WorkRequest,
    files: Mapping[str, bytes] | Path,
    facts: Mapping[str, Any] | None = None,
) -> Artifact:
    """The artifact of ``request`` with these files (contents, or a folder of them), by a writer of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        if isinstance(files, Path):
            folder = files
        else:
            folder = Path(scratch)
            for name, data in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(data)
        return artifacts.publish(
            request.address,
            folder,
            writer=f"w{uuid.uuid4().hex}",
            identity=request.identity,
            inputs=request.inputs,
            facts=dict(facts or {}),
            actor="ann",
        )


def spec_of(store: Store, request: WorkRequest, attempt: int = 1) -> WorkSpec:
    """The spec of an attempt at ``request``, as a launcher gets it."""
    return WorkSpec(
        asset=request.asset,
        store_url=store.url,
        store_layout=store.layout,
        address=request.address,
        attempt=attempt,
        identity=request.identity,
        inputs=request.inputs,
        params=request.params,
        runtime=request.runtime,
        label=request.label,
        actor="ann",
        resources=request.resources,
    )


def upload(artifacts: Artifacts, tenant: str = "acme", data: bytes = b"rows") -> Artifact:
    """The upload of a dataset version."""
    params = {"data": digest(data.decode()), "policy": DatasetPolicy().model_dump(mode="json")}
    request = WorkRequest(
        asset="raw_dataset", tenant=tenant, code_version="1", inputs={}, params=params, label=f"{tenant}.things"
    )
    return leave(artifacts, request, {"upload/rows.jsonl": data}, {"rows": 1})


def name_version(store: Store, key: str, raw: Artifact) -> None:
    """Make ``key`` a dataset version with the upload ``raw``; its content is told apart by the key."""
    pointer = {"address": str(raw.address), "digest": raw.digest, "content": digest(key)}
    store.create_json(f"names/dataset/{key}.json", {**pointer, "actor": "ann", "created_at": AT})


def add_recipe(store: Store, key: str, *, revision: str = REVISION, **changes: object) -> None:
    """A registered recipe on a Hub base that nobody downloaded."""
    recipe = Recipe.model_validate({"key": key, "base": "hub:acme/tiny@main", **changes})
    lock = BaseLock(kind="hub", source=SOURCE, revision=revision, digest=digest(["base", revision]), files={})
    register_locked(store, recipe, lock, actor="ann")


def made_submission(**changes: Any) -> Submission:
    """A submission that nobody recorded."""
    values = {
        "id": "0" * 16,
        "dataset": "acme.support.v1",
        "recipe": "tiny.v1",
        "actor": "ann",
        "origin": "cli",
        "idempotency_key": "ask-1",
        "driver": "sensor",
        "created_at": "2026-01-01T00:00:00.000+00:00",
    }
    return Submission(**{**values, **changes})


def submitted(
    store: Store, dataset: str = "acme.things.v1", recipe: str = "tiny.v1", *, key: str = "ask-1", **changes: Any
) -> Submission:
    """The pair's submission by ann, under the tenants file of the environment."""
    from ft_assets.control.submissions.submit import submit

    asked = {"actor": "ann", "origin": "cli", "idempotency_key": key, **changes}
    return submit(store, load_tenants(), dataset=dataset, recipe=recipe, **asked)[0]
