"""What a training would take, from what is in the store: exact where the pack is there, rough and labelled else."""

from dataclasses import dataclass
from statistics import median

from ft_assets import identity
from ft_assets.checkpoints.sampler import Order
from ft_assets.keys import DatasetKey
from ft_assets.recipes.register import get_recipe
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import HeldForReview, MissingInput

# English text in common tokenizers; without the pack nothing better is known.
BYTES_PER_TOKEN = 4
_RUNS = 3


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Sizes of one training. ``tokens_from`` and ``seconds_from`` say in words what the numbers stand on.

    ``seconds`` is None where no training on this base has run yet.
    """

    tokens_per_epoch: int
    windows: int
    steps_per_epoch: int
    steps: int
    tokens: int
    tokens_from: str
    seconds: float | None
    seconds_from: str


def estimate_training(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> Estimate:
    """The estimate for a pair. Raises UserError for keys that were never added, and for a senseless pair."""
    recipe = get_recipe(artifacts.store, recipe_key).recipe.resolved()[0]
    training = recipe.training
    tokens, windows, tokens_from = _sizes(artifacts, dataset_key, recipe_key, recipe.packing.max_length)
    order = Order(
        windows=windows,
        global_batch=training.global_batch_size,
        epochs=training.epochs,
        seed=training.seed,
        max_steps=training.max_steps,
    )
    total = round(tokens * order.steps / order.steps_per_epoch)
    rate, seconds_from = _rate(artifacts, dataset_key, recipe_key)
    return Estimate(
        tokens_per_epoch=tokens,
        windows=windows,
        steps_per_epoch=order.steps_per_epoch,
        steps=order.steps,
        tokens=total,
        tokens_from=tokens_from,
        seconds=total / rate if rate else None,
        seconds_from=seconds_from,
    )


def _sizes(artifacts: Artifacts, dataset_key: str, recipe_key: str, max_length: int) -> tuple[int, int, str]:
    """Tokens and windows of one epoch, and where they are from."""
    raw = identity.raw_dataset(artifacts, dataset_key)
    try:
        facts = identity.token_pack(artifacts, dataset_key, recipe_key).facts
        return facts["tokens"], facts["windows"], "counted in the token pack"
    except (MissingInput, HeldForReview):
        pass
    tokens = raw.facts["bytes"] / BYTES_PER_TOKEN
    try:
        rows = identity.dataset(artifacts, dataset_key).facts["rows"]
        share, source = rows["train"] / sum(rows.values()), "the upload's bytes and the share of rows to train on"
    except (MissingInput, HeldForReview):
        split = raw.manifest.identity["params"]["policy"]["split"]
        share, source = 1 - split["validation"] - split["holdout"], "the upload's bytes and the policy's split"
    tokens = max(1, round(tokens * share))
    return tokens, -(-tokens // max_length), f"a guess from {source}, at {BYTES_PER_TOKEN} bytes a token"


def _rate(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> tuple[float | None, str]:
    """Tokens per second of the tenant's last trainings on the same base and variant, and what that stands on."""
    try:
        base = identity.base_model(artifacts, recipe_key)
    except MissingInput:
        return None, "the base model is not prepared yet"
    variant = get_recipe(artifacts.store, recipe_key).recipe.variant
    tenant = DatasetKey.parse(dataset_key).tenant
    past = [
        run for run in _trainings(artifacts, tenant) if _same(run, base.digest, variant) and run.facts["tokens_per_s"]
    ]
    if not past:
        return None, f"{tenant} has not trained on this base yet"
    past.sort(key=lambda run: run.manifest.created_at)
    rates = [float(run.facts["tokens_per_s"]) for run in past[-_RUNS:]]
    words = "the last training" if len(rates) == 1 else f"the median of the last {len(rates)} trainings"
    return median(rates), f"{words} on this base, at {median(rates):,.0f} tokens/s, whatever machine that was"


def _same(run: Artifact, base_digest: str, variant: str) -> bool:
    return run.manifest.inputs["base"].digest == base_digest and run.manifest.identity["params"]["variant"] == variant


def _trainings(artifacts: Artifacts, tenant: str) -> list[Artifact]:
    found = []
    for fingerprint in artifacts.store.folders(f"{tenant}/checkpoint"):
        artifact = artifacts.find(Address(tenant=tenant, asset="checkpoint", fingerprint=fingerprint))
        if artifact is not None:
            found.append(artifact)
    return found
