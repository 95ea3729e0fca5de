"""Ask for an adapter: record the request (``submit``), or carry it out in this process (``fine_tune``)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ft_assets.api.defaults import (
    Orchestrator,
    actor_or_user,
    orchestrator_or_default,
    store_or_default,
    tenants_or_default,
)
from ft_assets.api.estimates import with_notes
from ft_assets.api.memory_rows import takes_rows
from ft_assets.api.own_keys import own_dataset, own_name, own_recipe
from ft_assets.control import identity
from ft_assets.control.lines.lines import address_at
from ft_assets.control.lines.walls import walls_of_pair
from ft_assets.control.planning.estimate import estimate_training
from ft_assets.control.planning.estimated import Estimate
from ft_assets.control.planning.known_base import base_of_recipe
from ft_assets.control.recipes.allowed import require_allowed, restricted
from ft_assets.control.recipes.stored import StoredRecipe, get_recipe
from ft_assets.control.registry.adding import add_dataset, look_at_rows, parse_name
from ft_assets.control.registry.first_try import name_of, register_first_try
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.submissions.submit import check_dataset, check_gates, check_maximum
from ft_assets.control.submissions.submit import submit as record_submission
from ft_assets.control.submissions.user_keys import check_own_key
from ft_assets.records.retired_recipes import require_recipe_not_retired
from ft_assets.records.submissions import (
    Driver,
    Origin,
    Submission,
    SubmissionOutcome,
    find_outcome,
    note_caller,
    resubmit_key,
)
from ft_assets.records.trial_only import refuse_trial
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.settings.environment import caller_tenant
from ft_assets.settings.keys import DatasetKey, check_pair
from ft_assets.settings.tenants import TenantsFile
from ft_assets.workers.datasets.intake.hub import PREFIX
from ft_assets.workers.datasets.intake.kinds import kind_of
from ft_resources.artifacts import Artifacts
from ft_resources.errors import BadData, HeldForReview, MissingInput, UserError
from ft_resources.hub import Hub
from ft_resources.launchers.choice import gpus_missing
from ft_resources.run_processes import process_tag
from ft_resources.store import Store
from ft_resources.store_glance import Glance

NOBODYS = "local"
"""The tenant of a first try whose caller names none."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The result of a request. ``created`` is False if an equal submission was open already: that one is returned, with
    its own maximum. ``estimate`` is what the training is expected to take. ``warnings`` are about unused fields of a
    new dataset that seem to matter, and about the safety of a new recipe. ``walls`` are all reasons that are known now
    why production would refuse the result."""

    submission: Submission
    created: bool
    estimate: Estimate
    warnings: tuple[str, ...] = ()
    walls: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FineTuned:
    """How a fine-tune ended: ``outcome.adapter`` is the adapter's address if it was accepted.

    ``estimate`` is what the training was expected to take before anything of it ran.
    """

    submission: Submission
    outcome: SubmissionOutcome
    estimate: Estimate


@takes_rows
def submit(
    dataset: Path | str,
    recipe: Path | str = "",
    *,
    base: str = "",
    name: str = "",
    policy: Path | str | None = None,
    holdout: Sequence[Path | str] = (),
    max_gpu_hours: float | None = None,
    gates: Sequence[str] = (),
    key: str = "",
    driver: Driver = "sensor",
    origin: Origin = "python",
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    actor: str = "",
    hub: Hub | None = None,
) -> Asked:
    """Record the request for an adapter; the submissions sensor of a running Dagster does the rest.

    An equal request joins an open submission; after its end it is a new submission, unless ``key`` is given.

    Args:
        dataset: key of a version; or, with ``name``, a file, a folder of files, ``hub:org/name@revision#split``, or
            rows in memory: dicts, a ``datasets.Dataset``, a data frame of pandas or polars.
        recipe: key of a registered recipe, or a recipe's YAML file (``.yaml`` or ``.yml``), which is registered.
        base: instead of a recipe, for a first try: the base as a recipe names it, or a folder. The method follows from
            the rows of the file, everything else is ``auto`` or a default, and no gate judges the result (ungated).
        name: with a file, ``tenant.name`` that it becomes a version of; with ``base`` it is made from the file's name
            if it is not given, for the tenant of ``FT_TENANT``, else ``local``.
        policy: with a file, its ``dataset.yaml``.
        holdout: with a file, files of rows to measure on; they are part of the version.
        max_gpu_hours: the training is refused if it is expected to take more; None for no limit.
        gates: what to ask for beyond the recipe's gates, such as ``exact_match > 0.6``; only stricter ones.
        key: idempotency key: requests with the same key are one submission, even after its end.
        driver: who launches the jobs: the sensor, or the caller itself.
        origin: the interface that was used, such as the CLI; it is recorded.
        store: where everything is kept. Default: that of ``FT_STORE``.
        tenants: limits and prices. Default: the file that ``FT_TENANTS`` names.
        actor: who asks. Default: the operating system's user.
        hub: where a new recipe's base is looked up. Default: the Hugging Face Hub with the token of ``HF_TOKEN``.

    Returns:
        The submission, whether it is new, and the estimate.

    Raises:
        UserError: for invalid arguments; nothing is recorded then, neither dataset nor recipe. BadData, BadRecipe and
            BadBase are subclasses. What only a sample of the rows shows (the template refuses one, or they are too
            long), and GPUs that this machine lacks, are refused before the submission is recorded; a dataset or recipe
            given as a file is there then.
        NotAllowed: for a base or a method that the tenant may not use.
        OverQuota: if the tenant has too few GPU-hours left, which is known once the dataset is read.
        KeyConflict: if ``key`` was used for another request.
        StoreUnavailable: if the store refuses.
    """
    _check_one_way(recipe, base)
    name = own_name(name)
    if base and not name and _is_source(dataset):
        name = name_of_first_try(str(dataset), caller_tenant() or NOBODYS)
    store = store_or_default(store, create=bool(name))
    tenants, actor = tenants_or_default(tenants), actor_or_user(actor)
    check_maximum(max_gpu_hours)
    check_own_key(key)
    _check_source(dataset, name, policy, holdout)
    dataset_key = own_dataset(str(dataset))
    warnings: tuple[str, ...] = ()
    rows_policy: Path | DatasetPolicy | None = Path(policy) if policy else None

    def settle_dataset(found: StoredRecipe) -> None:
        """The last checks that need no rows, and then the dataset: nothing of the recipe is recorded yet."""
        nonlocal dataset_key, warnings
        wanted = parse_name(name) if name else DatasetKey.parse(dataset_key)
        check_pair(wanted, found.recipe.recipe_key)
        check_gates(store, found.recipe, gates)
        require_recipe_not_retired(store, found.recipe.key)
        if restricted(tenants, wanted.tenant):
            require_allowed(tenants, wanted.tenant, found)
        if name:
            added = add_dataset(store, tenants, dataset, name, rows_policy, actor=actor, holdout=holdout)
            dataset_key, warnings = str(added.key), added.warnings
        else:
            check_dataset(store, dataset_key)

    if base:
        if not name:
            raise UserError(
                "a first try without a recipe needs a file of rows; this is a registered version",
                where=dataset_key,
                remedy="Name a recipe; or give the file that the version was made from.",
            )
        form, rows_policy, guessed = look_at_rows(dataset, rows_policy)
        gpus = 0 if gpus_missing(1) else 1
        recipe_key = register_first_try(
            store,
            form,
            base,
            parse_name(name),
            gpus=gpus,
            actor=actor,
            tenants=tenants,
            before=settle_dataset,
            hub=hub,
        ).key
        warnings = (*([guessed] if guessed else []), *warnings)
    elif _is_recipe_file(recipe):
        registered = register_recipe(
            store, Path(recipe), actor=actor, tenants=tenants, hub=hub, before=settle_dataset, at_stage=address_at
        )
        recipe_key, warnings = registered.key, (*warnings, *registered.notes)
    else:
        stored = get_recipe(store, own_recipe(store, str(recipe)))
        recipe_key = stored.recipe.key
        refuse_trial(store, recipe_key)
        settle_dataset(stored)
    artifacts = Artifacts(Glance(store))
    estimate = with_notes(
        artifacts,
        estimate_training(artifacts, tenants, dataset_key, recipe_key),
        dataset_key,
        get_recipe(store, recipe_key).recipe,
        base_of_recipe(artifacts, recipe_key),
    )
    if driver == "caller":
        _require_gpus(artifacts, dataset_key, recipe_key)
    submission, created = record_submission(
        store,
        tenants,
        dataset=dataset_key,
        recipe=recipe_key,
        actor=actor,
        origin=origin,
        driver=driver,
        idempotency_key=key or resubmit_key(store, dataset_key, recipe_key, gates),
        max_gpu_hours=max_gpu_hours,
        gates=gates,
    )
    return Asked(
        submission=submission,
        created=created,
        estimate=estimate,
        warnings=warnings,
        walls=walls_of_pair(
            store, tenants, dataset_key, get_recipe(store, recipe_key), gates=submission.gates, shown=estimate.provable
        ),
    )


def name_of_first_try(file: str, tenant: str) -> str:
    """The dataset name for a file that ``tenant`` tries without a name."""
    return f"{tenant}.{name_of(file)}"


@takes_rows
def fine_tune(
    dataset: Path | str,
    recipe: Path | str = "",
    *,
    base: str = "",
    name: str = "",
    policy: Path | str | None = None,
    holdout: Sequence[Path | str] = (),
    max_gpu_hours: float | None = None,
    gates: Sequence[str] = (),
    key: str = "",
    origin: Origin = "python",
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    actor: str = "",
    orchestrator: Orchestrator | None = None,
    on_asked: Callable[[Asked], None] | None = None,
) -> FineTuned:
    """Turn a dataset and a recipe into a gated adapter, and wait for it: the jobs run in this process. Ctrl-C cancels
    the submission. Dagster's log goes to ``foreground.log`` in the folder ``FT_STATE``.

    Args:
        orchestrator: who runs the jobs; Dagster, with the instance of ``DAGSTER_HOME``, where not given.
        on_asked: called with the submission and its estimate, before anything runs.

    The other arguments are those of ``submit``.

    Returns:
        The submission, its outcome (accepted with the adapter's address, rejected with the gates' reasons, failed or
        cancelled) and the estimate.

    Raises what ``submit`` raises, before any work, and:
        HeldForReview: if the dataset needs a review first. The submission stays open: call this again with the same
            keys after ``approve_dataset``.
        SubmissionPaused: if a person paused it, before or during the call. It stays open too: call this again after
            ``resume``.
    """
    store = store_or_default(store, create=bool(name or base))
    asked = submit(
        dataset,
        recipe,
        base=base,
        name=name,
        policy=policy,
        holdout=holdout,
        max_gpu_hours=max_gpu_hours,
        gates=gates,
        key=key,
        driver="caller",
        origin=origin,
        store=store,
        tenants=tenants,
        actor=actor,
    )
    if on_asked is not None:
        on_asked(asked)
    if find_outcome(store, asked.submission) is None:
        note_caller(store, asked.submission, process_tag())
    outcome = orchestrator_or_default(orchestrator).run(store, asked.submission)
    return FineTuned(submission=asked.submission, outcome=outcome, estimate=asked.estimate)


def _require_gpus(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> None:
    """Raise UserError for a training that would run here and needs GPUs that this machine does not have."""
    missing = gpus_missing(get_recipe(artifacts.store, recipe_key).recipe.hardware.sizes[-1])
    if not missing:
        return
    try:
        identity.checkpoint(artifacts, dataset_key, recipe_key)
    except (MissingInput, HeldForReview) as error:
        raise UserError(
            missing.rstrip("."),
            where=f"recipe {recipe_key}, hardware.gpus",
            remedy="Set hardware: {gpus: 0} in a new recipe version, run it where the GPUs are, or send workers to a "
            "cluster (FT_LAUNCHER=kubernetes).",
        ) from error


def _check_one_way(recipe: Path | str, base: str) -> None:
    """Raise UserError unless exactly one of a recipe and a base is named."""
    if bool(recipe) == bool(base):
        raise UserError(
            "both a recipe and a base are named" if base else "neither a recipe nor a base is named",
            where="recipe",
            remedy="Name a recipe (its key or file), or for a first try without one a base: --base folder:./model or "
            "--base hub:ORG/NAME@main; base= in Python.",
        )


def _is_source(dataset: Path | str) -> bool:
    """Whether ``text`` names rows and not a registered version."""
    return isinstance(dataset, Path) or dataset.startswith(PREFIX) or _names_file(dataset)


def _is_recipe_file(recipe: Path | str) -> bool:
    return isinstance(recipe, Path) or recipe.endswith((".yaml", ".yml"))


def _names_file(text: str) -> bool:
    """Whether ``text`` is the path of a file of rows, or of a folder of them; a dataset key never is."""
    try:
        kind_of(text)
    except BadData:
        return "/" in text or Path(text).is_dir()
    return True


def _check_source(dataset: Path | str, name: str, policy: Path | str | None, holdout: Sequence[Path | str]) -> None:
    """Raise UserError for a file without a name, and for a file's options without a file."""
    if name:
        parse_name(name)
        return
    text = own_dataset(str(dataset))
    if _is_source(dataset):
        raise UserError(
            "a file of rows needs a dataset name",
            where=text,
            remedy="Name the dataset that it is added to: --name tenant.name, or name= in Python.",
        )
    DatasetKey.parse(text)
    for what, given in (("holdout rows belong", holdout), ("a policy belongs", policy)):
        if given:
            raise UserError(
                f"{what} to a dataset version, and a registered version already has its own",
                where="holdout" if given is holdout else "policy",
                remedy="Give the training rows as a file too, with a name: together they become the next version.",
            )
