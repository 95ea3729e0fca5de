"""What the formats in fewer bits have in common."""

from types import MappingProxyType

from ft_assets.settings.catalogue.export_format import ExportFormat
from ft_assets.settings.catalogue.exports.merged import MERGED


def quantized(
    name: str,
    *,
    tool: str,
    kind: str,
    what: str,
    bits: float,
    only_matrices: bool = False,
    served_on: str = "",
    **settings: str,
) -> ExportFormat:
    """The format that ``tool`` makes of a merged model, by its own name ``kind``; ``what`` follows "merged, "."""
    return ExportFormat(
        name=name,
        what=f"merged, {what}",
        asset="quantized_model",
        work="ft_assets.workers.exports.quantized:quantize_model",
        code_version="1",
        bits=bits,
        only_matrices=only_matrices,
        served_on=served_on,
        made_of=MERGED,
        settings=MappingProxyType({"format": name, "tool": tool, "kind": kind, **settings}),
    )
