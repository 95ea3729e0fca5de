"""Exports of an adapter for other engines: they follow from the adapter alone."""

from collections.abc import Callable, Iterable
from functools import partial

from ft_assets.control.identity.adapters import exported
from ft_assets.control.identity.lookup import registered_recipe, require_made
from ft_assets.control.identity.reports import reevaluation_request
from ft_assets.records.tombstones import require_alive
from ft_assets.settings.catalogue.export_format import ExportFormat
from ft_assets.settings.catalogue.exports import EXPORTS, formats_of
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_resources.artifacts import Address, Artifact, Artifacts, InputRef
from ft_resources.errors import MissingInput, UserError
from ft_resources.work import Resources, WorkRequest

_PEFT_CONFIG = "adapter_config.json"
_BYTES = 4
# For the libraries, the logits of a text, and the memory of a layer while it is merged.
_ROOM_GIB = 8.0


def export_request(artifacts: Artifacts, adapter: Artifact, wanted: ExportFormat) -> WorkRequest:
    """The export of an accepted adapter, or of an ungated result, in a format.

    Raises Deleted for an adapter with a tombstone, MissingInput where the format that it is made of is not made yet
    (see ``ExportFormat.steps``), and UserError for an adapter that is a whole model already, or whose evaluation cannot
    be repeated on this format.
    """
    require_alive(artifacts.store, adapter)
    if _PEFT_CONFIG not in adapter.manifest.files:
        raise UserError(
            "the recipe trained all weights, so this is already a complete model and needs no merge",
            where=str(adapter.address),
            remedy=f"Download it: ft adapter download {adapter.address} FOLDER",
        )
    report = artifacts.get(Address.parse(adapter.manifest.inputs["eval_report"].address))
    params = adapter.manifest.identity["params"]
    inputs = {}
    if wanted.made_of is not None:
        _require_repeatable(report, wanted)
        inputs["exported"] = require_made(artifacts, export_request(artifacts, adapter, wanted.made_of)).ref
    return WorkRequest(
        asset=wanted.asset,
        tenant=adapter.address.tenant,
        code_version=CODE_VERSIONS[wanted.asset],
        inputs={
            "adapter": adapter.ref,
            "base": adapter.manifest.inputs["base"],
            "dataset": report.manifest.inputs["dataset"],
            **inputs,
        },
        params=dict(wanted.settings),
        label=f"{params['dataset']}|{params['recipe']}",
        resources=_resources(artifacts, params["recipe"], adapter.manifest.inputs["base"]),
    )


def _require_repeatable(report: Artifact, wanted: ExportFormat) -> None:
    engine = report.manifest.identity["params"]["evaluation"].get("engine", "transformers")
    if engine != "transformers":
        raise UserError(
            f"the adapter was evaluated with {engine}, and {wanted.name} is evaluated with Transformers only: the two "
            "could not be compared",
            where=str(report.address),
            remedy="Export it as merged, or train it by a recipe with evaluation.engine: transformers.",
        )


def _resources(artifacts: Artifacts, recipe_key: str, base: InputRef) -> Resources:
    """No GPU, and memory for the base in float32, in which logits are compared; or the recipe's, if that is more."""
    wanted = registered_recipe(artifacts, recipe_key).recipe.hardware.resources(0).model_copy(update={"gpu_type": None})
    found = artifacts.find(Address.parse(base.address))
    if found is None or "parameters" not in found.facts:
        return wanted
    needed = _BYTES * int(found.facts["parameters"]) / 2**30 + _ROOM_GIB
    return wanted.model_copy(update={"memory_gib": max(needed, wanted.memory_gib or 0.0)})


def asked_formats(artifacts: Artifacts, recipe_key: str, asset: str) -> list[ExportFormat]:
    """The formats in ``asset`` that a recipe's exports ask for; for a recipe without exports, the asset's only one.

    Raises UserError where there are several and the recipe names none.
    """
    exports, formats = registered_recipe(artifacts, recipe_key).recipe.exports, formats_of(asset)
    if not exports and len(formats) > 1:
        raise UserError(
            f"the recipe sets no exports, and {asset} has several formats",
            where=f"exports of {recipe_key}",
            remedy=f"Name one by ft export --format: {', '.join(each.name for each in formats)}.",
        )
    return [each for each in formats if not exports or each.name in exports]


def exports_missing(artifacts: Artifacts, adapter: Artifact, names: Iterable[str]) -> list[str]:
    """The formats among ``names`` whose export of an accepted adapter is not made, or not evaluated, yet."""
    missing = []
    for name in names:
        try:
            made = artifacts.find(export_request(artifacts, adapter, EXPORTS[name]).address)
        except MissingInput:
            made = None
        if made is None or artifacts.find(reevaluation_request(artifacts, adapter, made).address) is None:
            missing.append(name)
    return missing


def pair_export_requests() -> dict[str, list[Callable[[Artifacts, str, str], WorkRequest]]]:
    """The request functions of a pair's exports, one for each format, by asset name."""
    found: dict[str, list[Callable[[Artifacts, str, str], WorkRequest]]] = {}
    for each in EXPORTS.values():
        found.setdefault(each.asset, []).append(partial(_of_pair, each))
    return found


def pair_reevaluation_requests() -> list[Callable[[Artifacts, str, str], WorkRequest]]:
    """The request functions of the evaluations of a pair's exports, one for each format."""
    return [partial(_reevaluated, each) for each in EXPORTS.values()]


def _reevaluated(wanted: ExportFormat, artifacts: Artifacts, dataset_key: str, recipe_key: str) -> WorkRequest:
    adapter = exported(artifacts, dataset_key, recipe_key)
    made = require_made(artifacts, export_request(artifacts, adapter, wanted))
    return reevaluation_request(artifacts, adapter, made)


def _of_pair(wanted: ExportFormat, artifacts: Artifacts, dataset_key: str, recipe_key: str) -> WorkRequest:
    return export_request(artifacts, exported(artifacts, dataset_key, recipe_key), wanted)
