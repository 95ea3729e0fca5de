"""Registered recipes: create-only names for a recipe and the lock of its base."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ft_assets.control.auto.combinations import require_possible
from ft_assets.control.auto.resolve import resolve, written_paths
from ft_assets.control.recipes.load import load_recipe
from ft_assets.control.recipes.stored import StoredRecipe, find_recipe, get_recipe, record_digest
from ft_assets.control.recipes.trials import Trial, TrialOf, expand, trial_recipe, trial_recipes
from ft_assets.control.recipes.window import within_context
from ft_assets.control.registry.base_files import fetch_base_file
from ft_assets.control.registry.chain import lock_adapter, name_adapter
from ft_assets.control.registry.chats import needs_base_template
from ft_assets.control.registry.check_judges import require_judges
from ft_assets.control.registry.default_safety import with_default_safety, with_safety_of
from ft_assets.control.registry.validation_suite import require_validation_suite
from ft_assets.control.registry.vocabulary import require_new_tokens
from ft_assets.control.registry.warm_start import AtStage, lock_warm_start, require_continuable
from ft_assets.records.names import RECIPE
from ft_assets.records.uploads import publish_upload, upload_address
from ft_assets.settings.keys import SHARED, check_tenant
from ft_assets.settings.recipe.base_ref import AcceptedAdapter, AdapterOfPair, FolderDigest, FolderPath, HubRevision
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.tenants import NO_TENANTS, TenantsFile
from ft_assets.settings.ungated import NO_GATES
from ft_assets.workers.base_models.base_lock import BaseLock
from ft_assets.workers.base_models.contents import NAME_TEMPLATE, NO_TEMPLATE, TEMPLATE
from ft_assets.workers.base_models.context import context_length
from ft_assets.workers.base_models.lock import lock_folder, lock_hub
from ft_assets.workers.model_size.known import known_base
from ft_assets.workers.suites.registered import list_suites, suites_of
from ft_assets.workers.templates.source import own_template
from ft_resources.artifacts import Artifacts
from ft_resources.dotted import leaves
from ft_resources.errors import BadRecipe
from ft_resources.hub import Hub, HuggingFaceHub
from ft_resources.store import Store
from ft_resources.strict import nearest

UPLOAD = "base_upload"


@dataclass(frozen=True, kw_only=True, slots=True)
class RegisteredRecipe:
    """Result of a registration; ``created`` is False if the same recipe was registered already.

    ``notes`` say what the recipe's author did not write and should know.
    """

    key: str
    digest: str
    lock: BaseLock
    created: bool
    trials: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def register_recipe(
    store: Store,
    path: Path,
    *,
    actor: str,
    tenants: TenantsFile = NO_TENANTS,
    hub: Hub | None = None,
    before: Callable[[StoredRecipe], None] | None = None,
    at_stage: AtStage | None = None,
) -> RegisteredRecipe:
    """Register the recipe file ``path`` and lock its base; on any error nothing is written.

    ``tenants`` says which judge hosts a recipe may name; none without it. ``before`` is called after all checks and
    before anything is written; an exception from it ends the registration.
    Registering the same recipe again changes nothing, even if the named hub revision has moved since.

    Raises BadRecipe (unreadable, unknown suites, or the key has other content), BadBase (a base that cannot be used),
    HubUnavailable, StoreUnavailable.
    """
    recipe = load_recipe(path)
    return register_read(
        store,
        recipe,
        str(path),
        actor=actor,
        tenants=tenants,
        hub=hub,
        before=before,
        at_stage=at_stage,
        beside=path.parent,
    )


def register_read(
    store: Store,
    recipe: Recipe,
    where: str,
    *,
    actor: str,
    tenants: TenantsFile = NO_TENANTS,
    hub: Hub | None = None,
    before: Callable[[StoredRecipe], None] | None = None,
    at_stage: AtStage | None = None,
    beside: Path,
    of_model: str = "",
) -> RegisteredRecipe:
    """``register_recipe`` for a recipe that was read from ``where``; a base's folder is relative to ``beside``.
    ``of_model`` is the model of the catalogue for which a job has it registered."""
    if owner := recipe.recipe_key.tenant:
        tenants.require_tenant(owner)
    reference = recipe.base_reference
    given = not needs_base_template(store, recipe)
    folder: Path | None = None
    lock: BaseLock | None = None
    if isinstance(reference, FolderPath):
        folder = beside / reference.path.expanduser()
        lock = lock_folder(folder, f"{where}, base {recipe.base!r}", template_given=given)
        # From here on the recipe refers to these bytes, even if the folder moves.
        recipe = recipe.model_copy(update={"base": lock.source})
    stored = find_recipe(store, recipe.key)
    if isinstance(reference, AdapterOfPair):
        known = stored.lock if stored else None
        recipe = recipe.model_copy(
            update={"base": name_adapter(Artifacts(store), reference, recipe.recipe_key, known, where)}
        )
    recipe = lock_warm_start(Artifacts(store), recipe, stored, at_stage, where)
    if stored is not None:
        _require_same(with_safety_of(stored.recipe, recipe), stored, where)
        if before is not None:
            before(stored)
        # An earlier registration may have died after registering the sweep and before its trials.
        _register_trials(store, stored, actor=actor, where=where)
        return _registered(stored, created=False)
    if recipe.recipe_key.tenant:
        check_tenant(recipe.recipe_key.tenant)
    require_possible(resolve(recipe)[0], None, where)
    trials = _plan_trials(store, recipe, where)
    _require_suites(store, recipe, where)
    if lock is None:
        lock = _lock(store, recipe, hub, where)
    recipe, note = with_default_safety(store, recipe, lock, folder=folder, hub=lambda: hub or HuggingFaceHub())
    require_continuable(Artifacts(store), recipe, lock, where)
    config = config_of(store, lock, folder=folder, hub=hub)
    recipe = within_context(recipe, context_length(config), where)
    require_possible(resolve(recipe)[0], known_base(config), where)
    require_judges(store, tenants, recipe, lock, folder, where)
    require_new_tokens(store, recipe, lock, folder=folder, hub=lambda: hub or HuggingFaceHub(), where=where)
    if before is not None:
        before(StoredRecipe(recipe=recipe, digest="", lock=lock, trials=tuple(trials)))
    if folder is not None:
        address = upload_address(recipe.recipe_key.owner, UPLOAD, lock.digest)
        files = {name: folder / name for name in lock.files}
        facts = {"chat_template": own_template(folder) is not None}
        publish_upload(Artifacts(store), address, files, lock.digest, facts=facts, actor=actor)
        lock = lock.model_copy(update={"upload": str(address)})
    registered = register_locked(store, recipe, lock, actor=actor, where=where, of_model=of_model)
    return replace(registered, notes=(note,) if note else ())


def register_locked(
    store: Store, recipe: Recipe, lock: BaseLock, *, actor: str, where: str = "", of_model: str = ""
) -> RegisteredRecipe:
    """Take the name for a recipe whose base is locked and, if it is a folder, uploaded.

    The loser of a race gets the winner's record if the content is the same, otherwise BadRecipe.
    """
    trials = _plan_trials(store, recipe, where)
    extra = {"trials": [trial.model_dump(mode="json") for trial in trials]} if trials else {}
    created = _create(store, recipe, lock, extra, actor, of_model)
    stored = get_recipe(store, recipe.key)
    if not created:
        _require_same(recipe, stored, where)
    _register_trials(store, stored, actor=actor, where=where)
    return _registered(stored, created=created)


def _create(
    store: Store, recipe: Recipe, lock: BaseLock, extra: dict[str, Any], actor: str, of_model: str = ""
) -> bool:
    """Write the record, with ``extra`` about sweeps, unless one exists."""
    content, locked = recipe.model_dump(mode="json"), lock.model_dump(mode="json")
    record = {
        "recipe": content,
        "written": written_paths(recipe),
        "lock": locked,
        "digest": record_digest(content, locked, extra),
        "actor": actor,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        **({"of_model": of_model} if of_model else {}),
        **extra,
    }
    return RECIPE.create(store, recipe.key, record)


def _registered(stored: StoredRecipe, *, created: bool) -> RegisteredRecipe:
    trials = tuple(trial.key for trial in stored.trials)
    return RegisteredRecipe(
        key=stored.recipe.key, digest=stored.digest, lock=stored.lock, created=created, trials=trials
    )


def _plan_trials(store: Store, recipe: Recipe, where: str) -> list[Trial]:
    """The trials of a sweep. Raises BadRecipe if one is invalid, or if its key belongs to another recipe."""
    trials = expand(recipe, where)
    trial_recipes(recipe, trials, where)
    for trial in trials:
        taken = find_recipe(store, trial.key)
        if taken is not None and (taken.trial is None or taken.trial.sweep != recipe.key):
            raise BadRecipe(
                f"{recipe.key} would have the trial {trial.key}, and a recipe of that name exists",
                where=where,
                remedy="Use another name or version for the sweep.",
            )
    return trials


def _register_trials(store: Store, sweep: StoredRecipe, *, actor: str, where: str) -> None:
    """Register the trials that the sweep's record lists, on the same base; existing ones stay."""
    for trial in sweep.trials:
        recipe = trial_recipe(sweep.recipe, trial, where)
        mark = TrialOf(sweep=sweep.recipe.key, number=trial.number, values=trial.values)
        if not _create(store, recipe, sweep.lock, {"trial": mark.model_dump(mode="json")}, actor):
            stored = get_recipe(store, trial.key)
            if stored.trial != mark:
                raise BadRecipe(
                    f"{trial.key} is already registered, and is not trial {trial.number} of {mark.sweep}",
                    where=where,
                    remedy="Use another name or version for the sweep.",
                )


def _require_same(recipe: Recipe, stored: StoredRecipe, where: str) -> None:
    """Raise BadRecipe with the differing fields if ``recipe`` differs from what is stored.

    Only settings that either of them wrote are compared: defaults may have changed since the registration.
    """
    if stored.trial is not None:
        raise BadRecipe(
            f"{recipe.key} is registered already: trial {stored.trial.number} of the sweep {stored.trial.sweep}",
            where=where,
            remedy="Use another name for this recipe.",
        )
    ours, theirs = (dict(leaves(each.model_dump(mode="json"))) for each in (recipe, stored.recipe))
    said = {*written_paths(recipe), *written_paths(stored.recipe)}
    differing = [path for path in {**theirs, **ours} if path in said and ours.get(path) != theirs.get(path)]
    if recipe.sweep != stored.recipe.sweep:
        differing.append("sweep")
    if recipe.promotion is None and stored.recipe.promotion is not None:
        differing.append("promotion")
    if not differing:
        return
    key = recipe.recipe_key
    following = f"{recipe.key.removesuffix(f'.v{key.version}')}.v{key.version + 1}"
    raise BadRecipe(
        f"{recipe.key} is already registered with other content; it differs in {', '.join(differing)}",
        where=where,
        remedy=f"A registered recipe never changes: use key {following} for the new one.",
    )


def _require_suites(store: Store, recipe: Recipe, where: str) -> None:
    known = list_suites(store)
    for key in recipe.evaluation.suites:
        if key not in known:
            default = "" if "suites" in recipe.evaluation.model_fields_set else "not written, and "
            raise BadRecipe(
                f"evaluation.suites: {default}there is no suite {key!r}{', the default' if default else ''}; "
                + nearest(key, known),
                where=where,
                remedy=_DEFAULT_SUITE
                if default
                else "Name a registered suite, or register it first with: ft suite add FOLDER --key NAME.vN",
            )
    _require_safety_suite(store, recipe, where)
    require_validation_suite(store, recipe, where)


_DEFAULT_SUITE = (
    "Name your own registered suites (evaluation: {suites: [NAME.vN]}), or register the default from the project's "
    "folder with: ft suite add ft_assets/demo/suites/book_cloze --key book-cloze.v1; or write gates: none."
)


def _require_safety_suite(store: Store, recipe: Recipe, where: str) -> None:
    """Raise BadRecipe if the recipe's suites do not suffice to judge its gates."""
    safety = suites_of(store, recipe.evaluation.suites, "safety")
    if recipe.gates != NO_GATES and recipe.gates.safety is not None and not safety:
        raise BadRecipe(
            "gates.safety: safety is required, and evaluation.suites has no safety suite to measure it on",
            where=where,
            remedy="Add a suite of kind: safety to evaluation.suites, or leave gates.safety out.",
        )
    if len(safety) > 1:
        raise BadRecipe(
            f"evaluation.suites: {', '.join(safety)} are all safety suites, and a recipe may have only one",
            where=where,
            remedy="Put their prompts into one suite.",
        )
    if recipe.gates != NO_GATES and not suites_of(store, recipe.evaluation.suites, "suite"):
        raise BadRecipe(
            "evaluation.suites: there is no general suite, so a regression would not be seen",
            where=where,
            remedy="Also name a suite of questions with right answers, or write gates: none to try things out.",
        )


def config_of(store: Store, lock: BaseLock, *, folder: Path | None = None, hub: Hub | None = None) -> bytes | None:
    """The ``config.json`` of a locked base; None if it has none. ``folder`` holds it before its upload."""
    if folder is not None:
        return (folder / "config.json").read_bytes()
    with tempfile.TemporaryDirectory(prefix="ft-base-") as scratch:
        config = Path(scratch) / "config.json"
        found = fetch_base_file(store, lock, config.name, config, hub=lambda: hub or HuggingFaceHub())
        return config.read_bytes() if found else None


def _lock(store: Store, recipe: Recipe, hub: Hub | None, where: str) -> BaseLock:
    """The lock of a base that is not a folder on this machine."""
    reference = recipe.base_reference
    if isinstance(reference, FolderDigest):
        return _lock_stored(store, recipe, reference.digest, where)
    if isinstance(reference, AcceptedAdapter):
        lock = lock_adapter(Artifacts(store), reference, recipe.recipe_key, where)
        # Texts are learned without a template, and an adapter is exported with the one that it was trained with.
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
