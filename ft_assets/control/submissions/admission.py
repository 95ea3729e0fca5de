"""Whether a training may be launched, by its maximum of GPU-hours, its GPU's memory, and the room of its machine.

The check runs once the token pack exists and before any worker of the training starts, so token counts are exact.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from ft_assets.control import identity
from ft_assets.control.metering.quota import Standing, admit
from ft_assets.control.planning.estimate import estimate_training
from ft_assets.control.planning.estimated import Estimate, total
from ft_assets.control.planning.predict import Fits
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.sweeps.trial_states import missing_trials
from ft_assets.records.submissions import Submission, find_outcome, find_submission
from ft_assets.records.sweep_decision import SweepUndecided
from ft_assets.settings.bounds import Bounds
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.gpus import CATALOGUE, GIB, find_hardware
from ft_assets.settings.keys import DatasetKey
from ft_assets.settings.recipe.hardware import HardwareSettings
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.errors import BadRecipe, MissingInput, UserError
from ft_resources.launchers.room import Room, worker_room
from ft_resources.store import Store


class OverLimit(UserError):
    """A training is expected to take more than allowed; nothing was launched."""


def require_affordable(
    artifacts: Artifacts, tenants: TenantsFile, dataset_key: str, recipe_key: str, max_gpu_hours: float | None
) -> list[str]:
    """Warnings, as sentences, about a training that may be launched.

    ``max_gpu_hours`` is the submission's; the recipe's and the tenant's tier's count too, and the smallest applies.
    Trainings that exist or are in progress are not checked again. Raises OverLimit, and MissingInput before the pack
    exists.
    """
    if _begun(artifacts, dataset_key, recipe_key):
        return []
    stored = get_recipe(artifacts.store, recipe_key)
    hardware, where = stored.recipe.hardware, f"pair {dataset_key}|{recipe_key}"
    _require_whole(hardware)
    found = estimate_training(artifacts, tenants, dataset_key, recipe_key)
    wanted = hardware.resources(hardware.most_gpus).model_copy(update={"gpu_type": found.gpu_type})
    warnings = _require_room(found, worker_room(wanted), where)
    if hardware.most_gpus == 0:
        return warnings
    if stored.trial is not None and max_gpu_hours is not None:
        _require_sweep_hours(artifacts, tenants, dataset_key, stored.trial.sweep, max_gpu_hours)
    maximum, whose = limit_of(artifacts, tenants, dataset_key, recipe_key, max_gpu_hours)
    if maximum is not None:
        _require_hours(found, maximum, whose, where)
    return warnings + _require_memory(found, where)


def admit_to_quota(store: Store, tenants: TenantsFile, submission: Submission, *, promise: bool) -> list[str]:
    """Reserve the GPU-hours that a submission may take, as ``metering.quota.admit``."""
    return admit(
        store,
        tenants,
        submission.tenant,
        submission.id,
        hours=lambda: most_hours(Artifacts(store), tenants, submission),
        standing=lambda other: standing_of(store, submission.tenant, other),
        actor=submission.actor,
        now=datetime.now(UTC),
        promise=promise,
    )


def most_hours(artifacts: Artifacts, tenants: TenantsFile, submission: Submission) -> float | None:
    """Upper bound of a submission's GPU-hours: 0 on CPUs, and if its training exists or is in progress; None if it
    cannot be estimated."""
    if get_recipe(artifacts.store, submission.recipe).recipe.hardware.most_gpus == 0:
        return 0.0
    with suppress(MissingInput, SweepUndecided):
        if _begun(artifacts, submission.dataset, submission.recipe):
            return 0.0
    found = estimate_training(artifacts, tenants, submission.dataset, submission.recipe).gpu_hours
    return None if found is None else found.upper


def standing_of(store: Store, tenant: str, submission_id: str) -> Standing | None:
    """The state of a submission; None if it was never recorded."""
    found = find_submission(store, tenant, submission_id)
    if found is None:
        return None
    trials = get_recipe(store, found.recipe).trials
    labels = {found.pair, *(f"{found.dataset}|{trial.key}" for trial in trials)}
    return Standing(ended=find_outcome(store, found) is not None, labels=frozenset(labels))


def _begun(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> bool:
    """Whether the training exists or is in progress; False until its reference, which is checked first, is scored."""
    if identity.compares(artifacts, recipe_key):
        scored = identity.reference_logps_request(artifacts, dataset_key, recipe_key)
        if artifacts.find(scored.address) is None:
            return False
    request = identity.checkpoint_request(artifacts, dataset_key, recipe_key)
    attempts = attempts_at(artifacts.store, request.address)
    launched = bool(attempts) and attempts[-1].ending() is None
    return launched or artifacts.find(request.address) is not None


def sweep_refusal(
    artifacts: Artifacts, tenants: TenantsFile, dataset_key: str, trials: Sequence[str], max_gpu_hours: float | None
) -> str:
    """Why one of a sweep's untrained trials may not be launched; "" as for ``refusal``."""
    # The first check compares the maximum with all trials together; the others only need to fit on their own.
    limits = [max_gpu_hours, *[None] * (len(trials) - 1)]
    found = (refusal(artifacts, tenants, dataset_key, key, limit) for key, limit in zip(trials, limits, strict=True))
    return next((sentence for sentence in found if sentence), "")


def _require_sweep_hours(
    artifacts: Artifacts, tenants: TenantsFile, dataset_key: str, sweep_key: str, maximum: float
) -> None:
    """Compare the submission's maximum with all trials that neither exist nor are in progress."""
    estimates = []
    for trial in missing_trials(artifacts, dataset_key, sweep_key):
        if not _begun(artifacts, dataset_key, trial):
            estimates.append(estimate_training(artifacts, tenants, dataset_key, trial))
    if estimates:
        _require_hours(total(estimates), maximum, "the submission's", f"sweep {sweep_key} on {dataset_key}")


def refusal(
    artifacts: Artifacts, tenants: TenantsFile, dataset_key: str, recipe_key: str, max_gpu_hours: float | None
) -> str:
    """Why the training may not be launched; "" if it may, or if it is too early to know."""
    try:
        require_affordable(artifacts, tenants, dataset_key, recipe_key, max_gpu_hours)
    except OverLimit as error:
        return str(error)
    except MissingInput:
        return ""
    return ""


def limit_of(
    artifacts: Artifacts, tenants: TenantsFile, dataset_key: str, recipe_key: str, max_gpu_hours: float | None
) -> tuple[float | None, str]:
    """The smallest maximum of GPU-hours for a pair, and whose it is; None if there is none."""
    recipe = get_recipe(artifacts.store, recipe_key).recipe
    tier = tenants.tier_of(DatasetKey.parse(dataset_key).tenant)
    limits = [
        (max_gpu_hours, "the submission's"),
        (recipe.hardware.max_gpu_hours, "the recipe's"),
        (tier.max_gpu_hours, "the tenant's tier's"),
    ]
    known = [(limit, whose) for limit, whose in limits if limit is not None]
    return min(known) if known else (None, "")


def _require_hours(found: Estimate, maximum: float, whose: str, where: str) -> None:
    if found.gpu_hours is None:
        raise OverLimit(
            f"{whose} maximum is {maximum:g} GPU-hours, but the GPU-hours of this training cannot be "
            f"estimated: {found.gpu_hours_from}",
            where=where,
            remedy=f"Set hardware.gpu_type to one of {', '.join(CATALOGUE)} in a new recipe version, or submit "
            "without a maximum.",
        )
    what = "this training is" if found.trials == 1 else f"these {found.trials} trainings are together"
    if found.gpu_hours.expected > maximum:
        hours = found.gpu_hours
        raise OverLimit(
            f"{what} expected to take {hours.expected:.2f} GPU-hours (between {hours.lower:.2f} and "
            f"{hours.upper:.2f}), and {whose} maximum is {maximum:g}",
            where=where,
            remedy="Raise the maximum, or train less: fewer training.epochs, training.max_steps, a shorter dataset, "
            "lora instead of full.",
        )


def _require_whole(hardware: HardwareSettings) -> None:
    known = find_hardware(hardware.gpu_type or "")
    if known and known.part_of and hardware.all_gpus > 1:
        raise BadRecipe(
            f"{hardware.all_gpus} parts of {known.part_of} GPUs cannot train together: NCCL takes each GPU once",
            where="hardware.gpus",
            remedy=f"Use gpus: 1 and nodes: 1, or gpu_type: {known.part_of}, in a new recipe version.",
        )


def _require_memory(found: Estimate, where: str) -> list[str]:
    if found.memory is None or found.gpu_memory is None:
        return []
    room, needs, gpu_type = found.gpu_memory, _in_words(found.memory), found.gpu_type
    remedy = (
        "Lower training.micro_batch_size or packing.max_length, set training.optimizer (and, for full, "
        "training.weights) to auto, train lora instead of full, or name a larger GPU"
    )
    if _could_share_windows(found):
        remedy += ", or let several GPUs of a node share each window with hardware.context_parallel"
    if found.fits is Fits.NO:
        raise OverLimit(
            f"this training does not fit a {gpu_type}: it needs {needs}, and there are {room / GIB:.1f} GiB",
            where=where,
            remedy=f"{remedy}, in a new recipe version.",
        )
    if found.fits is Fits.PROBABLY_NOT:
        return [f"this training may not fit a {gpu_type} with {room / GIB:.1f} GiB: it needs {needs}. {remedy}."]
    return []


def _could_share_windows(found: Estimate) -> bool:
    """Whether the activations of a single window are too large though they are recomputed, and its tokens can be
    divided."""
    rest = sum(found.memory_parts.values()) - found.memory_parts.get("activations", 0)
    if found.gpu_memory is None or rest > found.gpu_memory:
        return False
    settings = {path: value for path, value, _ in found.settings}
    smallest = settings.get("training.micro_batch_size") == "1" and settings.get("training.recompute") == "on"
    method = METHODS.get(settings["method"])
    return smallest and method is not None and method.token_mean and found.documents[0] == "packed"


def _require_room(found: Estimate, room: Room, where: str) -> list[str]:
    """Warnings. Raises OverLimit for a machine with too little memory or disk: the first save would end the run."""
    warnings = []
    for need, there, what, more in (
        (found.host_memory, room.memory, "host memory", room.more_memory),
        (found.scratch, room.disk, "scratch disk", room.more_disk),
    ):
        if need is None or need.expected <= there:
            continue
        told = f"{_in_words(need)} of {what} with its saves, and there are {there / GIB:.1f} GiB"
        remedy = f"{more[0].upper()}{more[1:]}, or train lora instead of full."
        if need.lower > there:
            raise OverLimit(f"this training does not fit its machine: it needs {told}", where=where, remedy=remedy)
        warnings.append(f"this training may not fit its machine: it needs {told}. {remedy}")
    return warnings


def _in_words(need: Bounds) -> str:
    return f"between {need.lower / GIB:.1f} and {need.upper / GIB:.1f} GiB ({need.expected / GIB:.1f} expected)"
