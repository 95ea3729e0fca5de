"""Identity: resolve partition keys, through names and manifests, to artifact addresses. Read-only and deterministic.

For every asset ``x``, ``x_request`` says what would be made with today's inputs and code, and ``x`` finds the artifact
or raises ``MissingInput`` with the asset to materialize. Nothing is ever chosen as "the newest". The files follow the
asset graph: each imports only earlier ones. Callers write ``identity.x``, as ``x`` alone usually names the artifact.
"""

from typing import Any

from ft_assets.control.identity.adapters import adapter, adapter_request, exported, require_gated
from ft_assets.control.identity.bases import base_model, base_model_request
from ft_assets.control.identity.carried_pairs import carry_problem
from ft_assets.control.identity.datasets import approved_dataset, dataset, dataset_request, raw_dataset
from ft_assets.control.identity.exports import (
    asked_formats,
    export_request,
    exports_missing,
    pair_export_requests,
    pair_reevaluation_requests,
)
from ft_assets.control.identity.packs import token_pack, token_pack_request
from ft_assets.control.identity.pairs import require_fitting
from ft_assets.control.identity.reports import (
    baseline_report,
    baseline_report_request,
    eval_report,
    eval_report_request,
    reevaluation_request,
)
from ft_assets.control.identity.training import (
    checkpoint,
    checkpoint_request,
    compares,
    decision_path_of,
    pair_configuration,
    reference_logps,
    reference_logps_request,
)

__all__ = [
    "adapter",
    "adapter_request",
    "approved_dataset",
    "asked_formats",
    "base_model",
    "base_model_request",
    "baseline_report",
    "baseline_report_request",
    "carry_problem",
    "checkpoint",
    "checkpoint_request",
    "compares",
    "dataset",
    "dataset_request",
    "decision_path_of",
    "eval_report",
    "eval_report_request",
    "export_request",
    "exported",
    "exports_missing",
    "pair_configuration",
    "pair_export_requests",
    "pair_reevaluation_requests",
    "pair_requests",
    "raw_dataset",
    "reevaluation_request",
    "reference_logps",
    "reference_logps_request",
    "require_fitting",
    "require_gated",
    "token_pack",
    "token_pack_request",
]


def pair_requests() -> dict[str, Any]:
    """The pair assets' request functions by asset name, in graph order."""
    return {
        "token_pack": token_pack_request,
        "checkpoint": checkpoint_request,
        "eval_report": eval_report_request,
        "adapter": adapter_request,
    }
