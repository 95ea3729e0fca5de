"""``merged``: the adapter merged into its base's weights."""

from ft_assets.settings.catalogue.export_format import ExportFormat

MERGED = ExportFormat(
    name="merged",
    what="adapter and base as one model in the base's dtype, as safetensors",
    asset="merged_model",
    work="ft_assets.workers.exports.merged:merge_model",
    code_version="1",
)
