"""What the formats by GPTQ have in common (Frantar et al. 2022, https://arxiv.org/abs/2210.17323)."""

from ft_assets.settings.catalogue.export_format import ExportFormat
from ft_assets.settings.catalogue.exports.quantized import quantized

LLM_COMPRESSOR = "llm-compressor"
"""The tool that makes them."""


def gptq(scheme: str, bits: str) -> ExportFormat:
    """The format of llm-compressor's ``scheme``, whose linear layers are ``bits``."""
    what = f"linear layers by GPTQ {bits}, as compressed-tensors for vLLM"
    return quantized(f"gptq-{scheme.lower()}", tool=LLM_COMPRESSOR, kind=scheme, what=what)
