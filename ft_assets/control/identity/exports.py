"""What is made of an adapter for other engines: it follows from the adapter alone, wherever it stands."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from ft_assets.control.identity.adapters import exported
from ft_assets.control.identity.reports import reevaluation_request
from ft_assets.records.tombstones import require_alive
from ft_assets.settings.catalogue.export_format import ExportFormat
from ft_assets.settings.catalogue.exports import EXPORTS
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import UserError
from ft_resources.work import WorkRequest

_PEFT_CONFIG = "adapter_config.json"


def export_request(artifacts: Artifacts, adapter: Artifact, wanted: ExportFormat) -> WorkRequest:
    """The export of an accepted adapter, or of an ungated result, in a format.

    Raises Deleted for an adapter with a tombstone, and UserError for one that is a whole model already.
    """
    require_alive(artifacts.store, adapter)
    if _PEFT_CONFIG not in adapter.manifest.files:
        raise UserError(
            "the recipe trained all weights, so this is a whole model already, and there is nothing to merge",
            where=str(adapter.address),
            remedy=f"Take it as it is: ft adapter download {adapter.address} FOLDER",
        )
    report = artifacts.get(Address.parse(adapter.manifest.inputs["eval_report"].address))
    params = adapter.manifest.identity["params"]
    return WorkRequest(
        asset=wanted.asset,
        tenant=adapter.address.tenant,
        code_version=CODE_VERSIONS[wanted.asset],
        inputs={
            "adapter": adapter.ref,
            "base": adapter.manifest.inputs["base"],
            "dataset": report.manifest.inputs["dataset"],
        },
        params={},
        label=f"{params['dataset']}|{params['recipe']}",
    )


def exports_missing(artifacts: Artifacts, adapter: Artifact, names: Iterable[str]) -> list[str]:
    """Those of the formats ``names`` in which an accepted adapter is not made, or not evaluated, yet."""
    missing = []
    for name in names:
        made = artifacts.find(export_request(artifacts, adapter, EXPORTS[name]).address)
        if made is None or artifacts.find(reevaluation_request(artifacts, adapter, made).address) is None:
            missing.append(name)
    return missing


def pair_export_requests() -> dict[str, Any]:
    """The request functions of a pair's exports, by asset name."""
    return {each.asset: partial(_of_pair, each) for each in EXPORTS.values()}


def _of_pair(wanted: ExportFormat, artifacts: Artifacts, dataset_key: str, recipe_key: str) -> WorkRequest:
    return export_request(artifacts, exported(artifacts, dataset_key, recipe_key), wanted)
