"""How fast the tenant's own trainings of the same kind were: better than any formula, where there are some."""

from contextlib import suppress

from ft_assets.keys import DatasetKey
from ft_assets.recipes.models import HardwareSettings, Recipe
from ft_assets.recipes.register import get_recipe
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.errors import CorruptArtifact, UserError

_RUNS = 3


def past_rates(artifacts: Artifacts, dataset_key: str, recipe: Recipe, base_digest: str) -> tuple[list[float], str]:
    """Tokens/s of the tenant's last trainings on the same base, variant, precision and hardware, and words for them."""
    if not base_digest:
        return [], "the base model is not prepared yet"
    tenant = DatasetKey.parse(dataset_key).tenant
    past = [run for run in _trainings(artifacts, tenant) if _alike(artifacts, run, recipe, base_digest)]
    if not past:
        return [], f"{tenant} has not trained on this base and hardware yet"
    past.sort(key=lambda run: run.manifest.created_at)
    rates = [float(run.facts["tokens_per_s"]) for run in past[-_RUNS:]]
    words = "the last training" if len(rates) == 1 else f"the median of the last {len(rates)} trainings"
    return rates, f"{words} on this base and hardware"


def _alike(artifacts: Artifacts, run: Artifact, recipe: Recipe, base_digest: str) -> bool:
    params, settings = run.manifest.identity["params"], recipe.training
    return (
        run.manifest.inputs["base"].digest == base_digest
        and params["variant"] == recipe.variant
        and params["training"].get("precision") == settings.precision
        and bool(run.facts.get("tokens_per_s"))
        and _same_hardware(_hardware(artifacts, run), recipe.hardware)
    )


def _same_hardware(past: HardwareSettings | None, now: HardwareSettings) -> bool:
    """Where it ran is not part of what it is. Where no attempt tells, only a CPU may be assumed."""
    if past is None:
        return now.gpus == 0
    return (past.gpus, past.gpu_type) == (now.gpus, now.gpu_type)


def _hardware(artifacts: Artifacts, run: Artifact) -> HardwareSettings | None:
    """What the recipe asked for that the training was started by; None where its attempts are gone."""
    for attempt in reversed(attempts_at(artifacts.store, run.address)):
        spec = artifacts.store.find_json(f"{attempt.path}/spec.json")
        if spec is not None:
            _, _, recipe_key = str(spec["label"]).partition("|")
            try:
                return get_recipe(artifacts.store, recipe_key).recipe.hardware
            except UserError:
                return None
    return None


def _trainings(artifacts: Artifacts, tenant: str) -> list[Artifact]:
    found = []
    for fingerprint in artifacts.store.folders(f"{tenant}/checkpoint"):
        # One that is damaged tells nothing, and is no reason to refuse another.
        with suppress(CorruptArtifact):
            artifact = artifacts.find(Address(tenant=tenant, asset="checkpoint", fingerprint=fingerprint))
            if artifact is not None:
                found.append(artifact)
    return found
