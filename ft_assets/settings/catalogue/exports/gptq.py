"""What the formats by GPTQ have in common (Frantar et al. 2022, https://arxiv.org/abs/2210.17323)."""

from ft_assets.settings.catalogue.export_format import ExportFormat
from ft_assets.settings.catalogue.exports.quantized import quantized

LLM_COMPRESSOR = "llm-compressor"
"""The tool that makes them."""


def gptq(scheme: str, words: str, *, bits: float) -> ExportFormat:
    """The format of llm-compressor's ``scheme``, whose linear layers are in ``words``, and ``bits`` a weight with its
    scales."""
    what = f"linear layers by GPTQ {words}, as compressed-tensors for vLLM"
    name = f"gptq-{scheme.lower()}"
    return quantized(name, tool=LLM_COMPRESSOR, kind=scheme, what=what, bits=bits, only_matrices=True)
