"""Locks of bases: the files and digests that a recipe is bound to from its registration on."""

import tempfile
from pathlib import Path

from ft_assets.control.registry.base_files import fetch_base_file
from ft_assets.control.registry.chain import lock_adapter
from ft_assets.control.registry.chats import needs_base_template
from ft_assets.records.uploads import upload_address
from ft_assets.settings.keys import SHARED
from ft_assets.settings.recipe.base_ref import AcceptedAdapter, FolderDigest, HubRevision
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.base_models.base_lock import BaseLock
from ft_assets.workers.base_models.contents import NAME_TEMPLATE, NO_TEMPLATE, TEMPLATE
from ft_assets.workers.base_models.lock import lock_hub
from ft_resources.artifacts import Artifacts
from ft_resources.errors import BadRecipe
from ft_resources.hub import Hub, HuggingFaceHub
from ft_resources.store import Store

UPLOAD = "base_upload"


def config_of(store: Store, lock: BaseLock, *, folder: Path | None = None, hub: Hub | None = None) -> bytes | None:
    """The ``config.json`` of a locked base; None if it has none. ``folder`` holds it before its upload."""
    if folder is not None:
        return (folder / "config.json").read_bytes()
    with tempfile.TemporaryDirectory(prefix="ft-base-") as scratch:
        config = Path(scratch) / "config.json"
        found = fetch_base_file(store, lock, config.name, config, hub=lambda: hub or HuggingFaceHub())
        return config.read_bytes() if found else None


def lock_base(store: Store, recipe: Recipe, hub: Hub | None, where: str) -> BaseLock:
    """The lock of a base that is not a folder on this machine. Raises BadRecipe, BadBase, HubUnavailable and
    StoreUnavailable."""
    reference = recipe.base_reference
    if isinstance(reference, FolderDigest):
        return _lock_stored(store, recipe, reference.digest, where)
    if isinstance(reference, AcceptedAdapter):
        lock = lock_adapter(Artifacts(store), reference, recipe.recipe_key, where)
        # Plain texts need no template, and an adapter is exported with the template that it was trained with.
        if needs_base_template(store, recipe) and TEMPLATE not in lock.files:
            raise BadRecipe(NO_TEMPLATE, where=where, remedy=NAME_TEMPLATE)
        return lock
    assert isinstance(reference, HubRevision)
    given = not needs_base_template(store, recipe)
    return lock_hub(hub or HuggingFaceHub(), reference.repo, reference.revision, template_given=given)


def _lock_stored(store: Store, recipe: Recipe, content: str, where: str) -> BaseLock:
    """The lock of a folder uploaded by an earlier registration of the same tenant, or by a shared one."""
    artifacts = Artifacts(store)
    for tenant in dict.fromkeys((recipe.recipe_key.owner, SHARED)):
        upload = artifacts.find(upload_address(tenant, UPLOAD, content))
        if upload is None:
            continue
        if needs_base_template(store, recipe) and not upload.facts["chat_template"]:
            raise BadRecipe(NO_TEMPLATE, where=where, remedy=NAME_TEMPLATE)
        source = f"folder:sha256:{content}"
        files = upload.manifest.files
        return BaseLock(
            kind="folder", source=source, revision=content, digest=content, files=files, upload=str(upload.address)
        )
    raise BadRecipe(
        f"base: this store has no folder with digest {content}",
        where=where,
        remedy="Register the folder itself once (base: folder:PATH).",
    )
