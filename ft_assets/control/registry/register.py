"""Registered recipes: create-only names for a recipe and the lock of its base."""

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
from ft_assets.control.registry.chain import name_adapter
from ft_assets.control.registry.chats import needs_base_template
from ft_assets.control.registry.check_judges import require_judges
from ft_assets.control.registry.check_suites import require_suites
from ft_assets.control.registry.default_safety import with_default_safety, with_safety_of
from ft_assets.control.registry.lock_base import UPLOAD, config_of, lock_base
from ft_assets.control.registry.vocabulary import require_new_tokens
from ft_assets.control.registry.warm_start import AtStage, lock_warm_start, require_continuable
from ft_assets.records.names import RECIPE
from ft_assets.records.uploads import publish_upload, upload_address
from ft_assets.settings.keys import check_tenant
from ft_assets.settings.recipe.base_ref import AdapterOfPair, FolderPath
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.tenants import NO_TENANTS, TenantsFile
from ft_assets.workers.base_models.base_lock import BaseLock
from ft_assets.workers.base_models.context import context_length
from ft_assets.workers.base_models.lock import lock_folder
from ft_assets.workers.model_size.known import known_base
from ft_assets.workers.suites.catalogue.install import add_own
from ft_assets.workers.templates.source import own_template
from ft_resources.artifacts import Artifacts
from ft_resources.dotted import leaves
from ft_resources.errors import BadRecipe
from ft_resources.hub import Hub, HuggingFaceHub
from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class RegisteredRecipe:
    """Result of a registration; ``created`` is False if the same recipe was registered already.

    ``notes`` tell the recipe's author about settings that were added, ``walls`` what keeps its results out of
    production.
    """

    key: str
    digest: str
    lock: BaseLock
    created: bool
    trials: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    walls: tuple[str, ...] = ()


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
    """Register the recipe file ``path`` and lock its base; on any error nothing is written but suites of this package.

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
    ``of_model`` is the catalogue's model if a job registers the recipe."""
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
    require_suites(store, recipe, where, actor)
    if lock is None:
        lock = lock_base(store, recipe, hub, where)
    recipe, note = with_default_safety(store, recipe, lock, folder=folder, hub=lambda: hub or HuggingFaceHub())
    require_continuable(Artifacts(store), recipe, lock, where)
    config = config_of(store, lock, folder=folder, hub=hub)
    recipe = within_context(recipe, context_length(config), where)
    require_possible(resolve(recipe)[0], known_base(config), where)
    require_judges(store, tenants, recipe, lock, folder, where)
    require_new_tokens(store, recipe, lock, folder=folder, hub=lambda: hub or HuggingFaceHub(), where=where)
    add_own(store, recipe.evaluation.suites, actor)
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
