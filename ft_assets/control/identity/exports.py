"""What is made of an adapter for other engines: it follows from the adapter alone, wherever it stands."""

from ft_assets.records.tombstones import require_alive
from ft_assets.settings.catalogue.export_format import ExportFormat
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
