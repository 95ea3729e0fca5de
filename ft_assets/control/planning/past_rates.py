"""Speeds of the tenant's own similar trainings: better than any formula, if there are some."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ft_assets.control.auto.resolve import training_settings
from ft_assets.control.planning.known_base import KnownBase
from ft_assets.control.planning.token_sizes import Sizes, counted_sizes
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.settings.keys import DatasetKey
from ft_assets.settings.recipe.hardware import HardwareSettings
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.adapters.carried_checkpoint import SOURCE
from ft_assets.workers.model_size.model_size import Architecture
from ft_assets.workers.model_size.time import Work, training_flops
from ft_assets.workers.training.telemetry.flops import make_setup
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.canonical import canonical_json
from ft_resources.errors import CorruptArtifact, UserError

_RUNS = 3
# Operations per token within this share of each other count as equal.
_LIKE = 0.1
# A forward pass larger or smaller by more than this factor uses a device differently, so its rate says nothing.
_FARTHEST = 4.0


@dataclass(frozen=True, kw_only=True, slots=True)
class PastRates:
    """Tokens/s of earlier trainings, and a description.

    ``converted``: they had another shape; their rates are divided by the ratio of operations per token.
    """

    rates: tuple[float, ...] = ()
    source: str
    converted: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class _Run:
    """An earlier training: its measured rate, and our operations per token divided by its own."""

    rate: float
    ratio: float | None
    same: bool
    near: bool


def past_rates(artifacts: Artifacts, dataset_key: str, recipe: Recipe, base: KnownBase, sizes: Sizes) -> PastRates:
    """The tenant's last trainings with the base, method, variant, precision and hardware of the resolved ``recipe``.

    Rates of the same shape (length and number of windows in a forward pass, rank, adapted modules, share of learned
    tokens) are used as measured; if there are none, those of a similar shape, converted by operations per token.
    """
    if not base.digest:
        return PastRates(source="the base model is not prepared yet")
    tenant = DatasetKey.parse(dataset_key).tenant
    found = [run for run in _trainings(artifacts, tenant) if _alike(artifacts, run, recipe, base.digest)]
    if not found:
        return PastRates(source=f"{tenant} has not trained on this base and hardware yet")
    found.sort(key=lambda run: run.manifest.created_at)
    runs = [_compare(artifacts, run, recipe, base.architecture, sizes) for run in found]
    if same := [run for run in runs if run.same][-_RUNS:]:
        return PastRates(rates=tuple(run.rate for run in same), source=f"{_words(same)} on this base and hardware")
    if near := [(run, run.ratio) for run in runs if run.near and run.ratio][-_RUNS:]:
        return PastRates(
            rates=tuple(run.rate / ratio for run, ratio in near),
            source=f"{_words(near)} of another shape on this base and hardware, converted by operations per token",
            converted=True,
        )
    return PastRates(source=f"{tenant}'s trainings on this base and hardware were of another shape")


def _compare(artifacts: Artifacts, run: Artifact, recipe: Recipe, model: Architecture | None, sizes: Sizes) -> _Run:
    params = run.manifest.identity["params"]
    rate = float(run.facts["tokens_per_s"])
    ours = training_settings(recipe)
    pack = _pack(artifacts, run)
    if pack is None:
        return _Run(rate=rate, ratio=None, same=False, near=False)
    past_sizes = counted_sizes(pack.facts)
    max_length = int(pack.manifest.identity["params"]["packing"]["max_length"])
    forward = int(params["training"]["micro_batch_size"]) * max_length
    assert isinstance(recipe.training.micro_batch_size, int)
    wanted = recipe.training.micro_batch_size * recipe.packing.max_length
    ratio = _operations(model, ours, sizes) / _operations(model, params, past_sizes) if model else None
    like = ratio is None or abs(ratio - 1) <= _LIKE
    one_shape = canonical_json(_shape(params)) == canonical_json(_shape(ours))
    return _Run(
        rate=rate,
        ratio=ratio,
        same=one_shape and like and forward == wanted and max_length == recipe.packing.max_length,
        near=1 / _FARTHEST <= forward / wanted <= _FARTHEST,
    )


def _shape(params: dict[str, Any]) -> dict[str, Any]:
    """The settings that decide a training's rate, besides its windows."""
    lora = params["lora"] or {}
    targets = lora.get("target_modules")
    return {
        "rank": lora.get("rank"),
        "targets": sorted(targets) if isinstance(targets, list | tuple) else targets,
        "dropout": bool(lora.get("dropout")),
        "dora": bool(lora.get("use_dora")),
        "pissa": lora.get("init") == "pissa",
        "optimizer": params["training"].get("optimizer"),
    }


def _operations(model: Architecture, params: dict[str, Any], sizes: Sizes) -> float:
    """Operations per token in a training with these settings."""
    work = Work(tokens=1, steps=1, learned=sizes.learned.expected, document_length=sizes.document_length)
    return training_flops(model, make_setup(params, {}, gpus=0), work)


def _words(runs: Sequence[object]) -> str:
    return "the last training" if len(runs) == 1 else f"the median of the last {len(runs)} trainings"


def _alike(artifacts: Artifacts, run: Artifact, recipe: Recipe, base_digest: str) -> bool:
    params, settings = run.manifest.identity["params"], recipe.training
    return (
        run.manifest.inputs["base"].digest == base_digest
        and params["method"] == recipe.method
        and params["variant"] == recipe.variant
        and params["training"].get("precision") == settings.precision
        and float(run.facts.get("tokens_per_s") or 0) > 0
        and _same_hardware(_hardware(artifacts, run), recipe.hardware)
    )


def _same_hardware(past: HardwareSettings | None, now: HardwareSettings) -> bool:
    """Hardware is not part of the identity. If no attempt records it, only a CPU may be assumed."""
    if past is None:
        return now.gpus == 0 and now.nodes == 1
    if now.elastic:
        # The number of GPUs varied, so its rate cannot be used.
        return False
    mine, theirs = ((each.gpus, each.nodes, each.context_parallel, each.gpu_type) for each in (now, past))
    return mine == theirs


def _hardware(artifacts: Artifacts, run: Artifact) -> HardwareSettings | None:
    """The hardware settings of the recipe that started the training, with the type of GPU that it got; None if its
    attempts are gone."""
    for attempt in reversed(attempts_at(artifacts.store, run.address)):
        try:
            spec = attempt.spec()
        except CorruptArtifact:
            return None
        if spec is not None:
            _, _, recipe_key = spec.label.partition("|")
            try:
                hardware = get_recipe(artifacts.store, recipe_key).recipe.hardware
                return hardware.model_copy(update={"gpu_type": spec.resources.gpu_type or hardware.gpu_type})
            except UserError:
                return None
    return None


def _pack(artifacts: Artifacts, run: Artifact) -> Artifact | None:
    """The token pack that a training read; None if it is gone."""
    with suppress(CorruptArtifact):
        return artifacts.find(Address.parse(run.manifest.inputs["pack"].address))
    return None


def _trainings(artifacts: Artifacts, tenant: str) -> list[Artifact]:
    found = []
    for fingerprint in artifacts.store.folders(f"{tenant}/checkpoint"):
        # A damaged training gives no rate, and does not fail the estimate.
        with suppress(CorruptArtifact):
            artifact = artifacts.find(Address(tenant=tenant, asset="checkpoint", fingerprint=fingerprint))
            # A carried checkpoint has the figures of the original training, and took no time itself.
            if artifact is not None and SOURCE not in artifact.manifest.inputs:
                found.append(artifact)
    return found
