"""What a recipe's exports would take: disk by arithmetic, time from earlier exports on the same base.

The time of a converter or an evaluation cannot be predicted from sizes, so without an earlier one it is unknown.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from ft_assets.control.planning.known_base import KnownBase
from ft_assets.settings.bounds import Bounds
from ft_assets.settings.catalogue.export_format import ExportFormat
from ft_assets.settings.catalogue.exports import EXPORTS
from ft_assets.settings.keys import DatasetKey
from ft_assets.settings.recipe.recipe import Recipe
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.errors import CorruptArtifact

_RUNS = 3
_USUAL_BYTES_EACH = 2.0
# Uncertainty: a file's contents besides weights, and layers that a format cannot divide and stores with more bits.
_LESS, _MORE = 0.97, 1.25


@dataclass(frozen=True, kw_only=True)
class ExportEstimate:
    """What one export would take; each ``…_from`` describes the source of its number.

    Args:
        format: its name in ``exports``.
        disk: bytes that stay in the store, with those of what it is made of; None if unknown.
        served_on: the GPUs that an engine needs for it; empty where any machine does.
        seconds: to make it, what it is made of included, and to evaluate it again; None if unknown.
    """

    format: str
    served_on: str
    disk: Bounds | None
    disk_from: str
    seconds: float | None
    seconds_from: str


def estimate_exports(
    artifacts: Artifacts, dataset_key: str, recipe: Recipe, base: KnownBase
) -> tuple[ExportEstimate, ...]:
    """The exports that the recipe asks for, in its order."""
    if not recipe.exports:
        return ()
    past = _Past(
        artifacts=artifacts,
        tenant=DatasetKey.parse(dataset_key).tenant,
        base=base.digest,
        evaluation=_settings({"evaluation": recipe.evaluation.model_dump(mode="json")}),
    )
    return tuple(_estimate(EXPORTS[name], base, past) for name in recipe.exports)


def _estimate(wanted: ExportFormat, base: KnownBase, past: "_Past") -> ExportEstimate:
    disk, disk_from = _disk(wanted, base)
    seconds, seconds_from = past.seconds_of(wanted)
    return ExportEstimate(
        format=wanted.name,
        served_on=wanted.served_on,
        disk=disk,
        disk_from=disk_from,
        seconds=seconds,
        seconds_from=seconds_from,
    )


def _disk(wanted: ExportFormat, base: KnownBase) -> tuple[Bounds | None, str]:
    model = base.architecture
    if model is None:
        return None, f"too little is known about the base ({base.source})"
    stored, stored_from = float(base.weight_bytes), "as the base's weights"
    if not stored:
        stored, stored_from = _USUAL_BYTES_EACH * model.parameters, "2 bytes per weight, as for most bases"
    merged = Bounds(lower=stored, expected=stored, upper=stored)
    if wanted.bits is None:
        return merged, stored_from
    kept = model.parameters - model.matrices if wanted.only_matrices else 0
    own = (model.parameters - kept) * wanted.bits / 8 + kept * stored / model.parameters
    quantised = Bounds(lower=_LESS * own, expected=own, upper=_MORE * own)
    what = "per weight of linear layers" if wanted.only_matrices else "a weight"
    return merged + quantised, f"{wanted.bits:g} bits {what}, and the merged model, which is kept"


@dataclass(frozen=True, kw_only=True)
class _Past:
    """Earlier work of a tenant on a base."""

    artifacts: Artifacts
    tenant: str
    base: str
    evaluation: Mapping[str, Any]

    def seconds_of(self, wanted: ExportFormat) -> tuple[float | None, str]:
        """Median seconds of the last works, and a description."""
        if not self.base:
            return None, "the base model is not prepared yet"
        parts = []
        for step in wanted.steps:
            took = self._took(step.asset, partial(_is_of, step))
            if not took:
                return None, f"{self.tenant} has not exported {step.name} on this base yet"
            parts.append((f"{median(took):,.0f} s to make {step.name}", median(took)))
        took = self._took("eval_report", lambda each: _settings(_params(each)) == self.evaluation)
        if not took:
            return None, f"{self.tenant} has not evaluated with these settings on this base yet"
        parts.append((f"{median(took):,.0f} s to evaluate", median(took)))
        said = ", ".join(words for words, _ in parts)
        return sum(seconds for _, seconds in parts), f"medians of the last {_RUNS} or fewer on this base: {said}"

    def _took(self, asset: str, alike: Callable[[Artifact], bool]) -> list[float]:
        """Seconds of the last attempts of the newest works that are ``alike``."""
        found = [each for each in self._made(asset) if alike(each)]
        found.sort(key=lambda each: each.manifest.created_at)
        spans = (_seconds(self.artifacts, each) for each in reversed(found))
        return [span for span in spans if span is not None][:_RUNS]

    def _made(self, asset: str) -> Iterator[Artifact]:
        for fingerprint in self.artifacts.store.folders(f"{self.tenant}/{asset}"):
            # A damaged work gives no time, and does not fail the estimate.
            with suppress(CorruptArtifact):
                artifact = self.artifacts.find(Address(tenant=self.tenant, asset=asset, fingerprint=fingerprint))
                if artifact is not None and artifact.manifest.inputs["base"].digest == self.base:
                    yield artifact


def _is_of(wanted: ExportFormat, made: Artifact) -> bool:
    return _params(made) == dict(wanted.settings)


def _params(artifact: Artifact) -> dict[str, Any]:
    return dict(artifact.manifest.identity["params"])


def _settings(params: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an evaluation, without its choice of weights, which does not affect its time."""
    return {name: each for name, each in params.get("evaluation", {}).items() if name != "candidate"}


def _seconds(artifacts: Artifacts, made: Artifact) -> float | None:
    with suppress(CorruptArtifact):
        for attempt in reversed(attempts_at(artifacts.store, made.address)):
            if span := attempt.span():
                return span.ended_at - span.started_at
    return None
