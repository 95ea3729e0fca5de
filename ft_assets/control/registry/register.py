"""Registered recipes: create-only names for a recipe and the lock of its base."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ft_assets.base_models.contents import own_template
from ft_assets.base_models.lock import BaseLock, lock_folder, lock_hub
from ft_assets.checkpoints.configuration.combinations import require_possible
from ft_assets.evals.suites import list_suites, suites_of
from ft_assets.keys import SHARED, RecipeKey
from ft_assets.recipes.base_ref import AcceptedAdapter, AdapterOfPair, FolderDigest, FolderPath, HubRevision
from ft_assets.recipes.chain import lock_adapter, name_adapter
from ft_assets.recipes.judging import require_judges
from ft_assets.recipes.load import load_recipe
from ft_assets.recipes.models import Recipe
from ft_assets.recipes.resolve import with_written, written_paths
from ft_assets.recipes.strict import nearest, parse_strict
from ft_assets.recipes.upload import publish_upload, upload_address
from ft_assets.recipes.validation_suite import require_validation_suite
from ft_assets.recipes.vocabulary import require_new_tokens
from ft_assets.sweeps.expand import Trial, TrialOf, expand, trial_recipe, trial_recipes
from ft_resources.artifacts import Artifacts
from ft_resources.canonical import digest
from ft_resources.dotted import leaves
from ft_resources.errors import BadRecipe, CorruptArtifact, UserError
from ft_resources.hub import Hub, HuggingFaceHub
from ft_resources.store import Store

UPLOAD = "base_upload"


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRecipe:
    """A registered recipe: what it says, the digest of that and of its base, and the base's lock.

    ``trials`` are those of a sweep, in its order; ``trial`` says of which sweep this is one.
    """

    recipe: Recipe
    digest: str
    lock: BaseLock
    trials: tuple[Trial, ...] = ()
    trial: TrialOf | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RegisteredRecipe:
    """What registering gave; ``created`` is False where the same recipe was there already."""

    key: str
    digest: str
    lock: BaseLock
    created: bool
    trials: tuple[str, ...] = ()


def register_recipe(store: Store, path: Path, *, actor: str, hub: Hub | None = None) -> RegisteredRecipe:
    """Register the recipe file ``path`` and lock its base; nothing is written when anything is wrong.

    Registering the same again changes nothing, even where the named hub revision has moved since. Raises BadRecipe
    (unreadable, unknown suites, or the key is taken by other content), BadBase (a base that cannot be used),
    HubUnavailable, StoreUnavailable.
    """
    recipe, where = load_recipe(path), str(path)
    reference = recipe.base_reference
    given = recipe.chat_template is not None
    folder: Path | None = None
    lock: BaseLock | None = None
    if isinstance(reference, FolderPath):
        folder = path.parent / reference.path.expanduser()
        lock = lock_folder(folder, f"{where}, base {recipe.base!r}", template_given=given)
        # From here on the recipe means these bytes, wherever the folder goes.
        recipe = recipe.model_copy(update={"base": lock.source})
    stored = _find(store, recipe.key)
    if isinstance(reference, AdapterOfPair):
        known = stored.lock if stored else None
        recipe = recipe.model_copy(
            update={"base": name_adapter(Artifacts(store), reference, recipe.recipe_key, known, where)}
        )
    if stored is not None:
        _require_same(recipe, stored, where)
        # An earlier registration may have died between the sweep and its trials.
        _register_trials(store, stored, actor=actor, where=where)
        return _registered(stored, created=False)
    require_possible(recipe.resolved()[0], None, where)
    _plan_trials(store, recipe, where)
    _require_suites(store, recipe, where)
    if lock is None:
        lock = _lock(store, recipe, hub, where)
    require_judges(store, recipe, lock, folder, where)
    require_new_tokens(store, recipe, lock, folder=folder, hub=lambda: hub or HuggingFaceHub(), where=where)
    if folder is not None:
        address = upload_address(recipe.recipe_key.owner, UPLOAD, lock.digest)
        files = {name: folder / name for name in lock.files}
        facts = {"chat_template": own_template(folder, where) is not None}
        publish_upload(Artifacts(store), address, files, lock.digest, facts=facts, actor=actor)
        lock = lock.model_copy(update={"upload": str(address)})
    return register_locked(store, recipe, lock, actor=actor, where=where)


def register_locked(store: Store, recipe: Recipe, lock: BaseLock, *, actor: str, where: str = "") -> RegisteredRecipe:
    """Take the name for a recipe whose base is locked and, if it is a folder, uploaded.

    Whoever loses a race against the same content gets the winner's record; BadRecipe where the content differs.
    """
    trials = _plan_trials(store, recipe, where)
    extra = {"trials": [trial.model_dump(mode="json") for trial in trials]} if trials else {}
    created = _create(store, recipe, lock, extra, actor)
    stored = get_recipe(store, recipe.key)
    if not created:
        _require_same(recipe, stored, where)
    _register_trials(store, stored, actor=actor, where=where)
    return _registered(stored, created=created)


def _create(store: Store, recipe: Recipe, lock: BaseLock, extra: dict[str, Any], actor: str) -> bool:
    """Write the record, with ``extra`` about sweeps, unless there is one."""
    content, locked = recipe.model_dump(mode="json"), lock.model_dump(mode="json")
    record = {
        "recipe": content,
        "written": written_paths(recipe),
        "lock": locked,
        "digest": _digest(content, locked, extra),
        "actor": actor,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        **extra,
    }
    return store.create_json(f"names/recipe/{recipe.key}.json", record)


def _registered(stored: StoredRecipe, *, created: bool) -> RegisteredRecipe:
    trials = tuple(trial.key for trial in stored.trials)
    return RegisteredRecipe(
        key=stored.recipe.key, digest=stored.digest, lock=stored.lock, created=created, trials=trials
    )


def _plan_trials(store: Store, recipe: Recipe, where: str) -> list[Trial]:
    """The trials of a sweep. Raises BadRecipe where one of them cannot be, or its key is somebody else's."""
    trials = expand(recipe, where)
    trial_recipes(recipe, trials, where)
    for trial in trials:
        taken = _find(store, trial.key)
        if taken is not None and (taken.trial is None or taken.trial.sweep != recipe.key):
            raise BadRecipe(
                f"{recipe.key} would have the trial {trial.key}, and there is a recipe of that name",
                where=where,
                remedy="Use another name or version for the sweep.",
            )
    return trials


def _register_trials(store: Store, sweep: StoredRecipe, *, actor: str, where: str) -> None:
    """Register the trials that the sweep's record lists, on the same base; those that are there stay."""
    for trial in sweep.trials:
        recipe = trial_recipe(sweep.recipe, trial, where)
        mark = TrialOf(sweep=sweep.recipe.key, number=trial.number, values=trial.values)
        if not _create(store, recipe, sweep.lock, {"trial": mark.model_dump(mode="json")}, actor):
            stored = get_recipe(store, trial.key)
            if stored.trial != mark:
                raise BadRecipe(
                    f"{trial.key} is registered as something else than trial {trial.number} of {mark.sweep}",
                    where=where,
                    remedy="Use another name or version for the sweep.",
                )


def get_recipe(store: Store, key: str) -> StoredRecipe:
    """The recipe registered as ``key``. Raises UserError that names the nearest registered key where there is none."""
    stored = _find(store, str(RecipeKey.parse(key)))
    if stored is None:
        raise UserError(
            f"there is no recipe {key!r}; {nearest(key, list_recipes(store))}",
            where=f"recipe key {key!r}",
            remedy="Use a registered key, or register it with: ft recipe add FILE",
        )
    return stored


def list_recipes(store: Store) -> list[str]:
    """The keys of all registered recipes, sorted."""
    names = (entry.path.rsplit("/", 1)[-1] for entry in store.entries("names/recipe"))
    return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))


def _find(store: Store, key: str) -> StoredRecipe | None:
    path = f"names/recipe/{key}.json"
    record = store.find_json(path)
    if record is None:
        return None
    try:
        recipe = parse_strict(Recipe, record["recipe"], path)
        lock = BaseLock.model_validate(record["lock"])
        found = StoredRecipe(
            recipe=with_written(recipe, record["written"]),
            digest=record["digest"],
            lock=lock,
            trials=tuple(Trial.model_validate(trial) for trial in record.get("trials", ())),
            trial=TrialOf.model_validate(record["trial"]) if "trial" in record else None,
        )
    except (KeyError, TypeError, ValueError, BadRecipe) as error:
        raise CorruptArtifact(
            "the recipe's record cannot be read",
            where=path,
            remedy="Restore it from the bucket's versions or a backup.",
        ) from error
    extra = {name: record[name] for name in ("trials", "trial") if name in record}
    if _digest(record["recipe"], record["lock"], extra) != found.digest:
        raise CorruptArtifact(
            "the recipe's record does not match its digest",
            where=path,
            remedy="Restore it from the bucket's versions or a backup.",
        )
    return found


def _require_same(recipe: Recipe, stored: StoredRecipe, where: str) -> None:
    """Raises BadRecipe with the differing fields where ``recipe`` says something else than what is stored.

    What neither says is the default of the day on which the recipe was registered, which may be another today.
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
            raise BadRecipe(
                f"evaluation.suites: there is no suite {key!r}; {nearest(key, known)}",
                where=where,
                remedy="Name a registered suite, or register it first with: ft suite add FOLDER --key NAME.vN",
            )
    _require_safety_suite(store, recipe, where)
    require_validation_suite(store, recipe, where)


def _require_safety_suite(store: Store, recipe: Recipe, where: str) -> None:
    """Raise BadRecipe where the recipe's gates could not be judged on its suites."""
    safety = suites_of(store, recipe.evaluation.suites, "safety")
    if recipe.gates.safety is not None and not safety:
        raise BadRecipe(
            "gates.safety: refusals are required, and evaluation.suites names no safety suite to count them on",
            where=where,
            remedy="Add a suite of kind: safety to evaluation.suites, or leave gates.safety out.",
        )
    if len(safety) > 1:
        raise BadRecipe(
            f"evaluation.suites: {', '.join(safety)} are all safety suites, and a recipe has one",
            where=where,
            remedy="Put their prompts into one suite.",
        )
    if not suites_of(store, recipe.evaluation.suites, "suite"):
        raise BadRecipe(
            "evaluation.suites: there is no general suite, so that nothing would show what became worse",
            where=where,
            remedy="Name a suite of questions with right answers beside these.",
        )


def _lock(store: Store, recipe: Recipe, hub: Hub | None, where: str) -> BaseLock:
    """The lock of a base that is no folder on this machine."""
    reference = recipe.base_reference
    if isinstance(reference, FolderDigest):
        return _lock_stored(store, recipe, reference.digest, where)
    if isinstance(reference, AcceptedAdapter):
        return lock_adapter(Artifacts(store), reference, recipe.recipe_key, where)
    assert isinstance(reference, HubRevision)
    given = recipe.chat_template is not None
    return lock_hub(hub or HuggingFaceHub(), reference.repo, reference.revision, template_given=given)


def _lock_stored(store: Store, recipe: Recipe, content: str, where: str) -> BaseLock:
    """The lock of a folder that an earlier registration of the same tenant, or a shared one, uploaded."""
    artifacts = Artifacts(store)
    for tenant in dict.fromkeys((recipe.recipe_key.owner, SHARED)):
        upload = artifacts.find(upload_address(tenant, UPLOAD, content))
        if upload is None:
            continue
        if recipe.chat_template is None and not upload.facts["chat_template"]:
            raise BadRecipe(
                "the base has no chat template and the recipe names none",
                where=where,
                remedy="Name one (chat_template: FILE).",
            )
        source = f"folder:sha256:{content}"
        files = upload.manifest.files
        return BaseLock(
            kind="folder", source=source, revision=content, digest=content, files=files, upload=str(upload.address)
        )
    raise BadRecipe(
        f"base: this store has no folder with digest {content}",
        where=where,
        remedy="Register once with the folder itself (base: folder:PATH).",
    )


def _digest(recipe: dict[str, Any], lock: dict[str, Any], extra: dict[str, Any]) -> str:
    """Digest of recipe and lock as JSON, without where inputs lie, which says nothing about the content."""
    terms = {name: lock[name] for name in lock if name not in ("upload", "parent")}
    return digest({"recipe": recipe, "lock": terms, **extra})
