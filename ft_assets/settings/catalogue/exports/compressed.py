"""What the formats by llm-compressor have in common."""

from ft_assets.settings.catalogue.export_format import ExportFormat
from ft_assets.settings.catalogue.exports.quantized import quantized

LLM_COMPRESSOR = "llm-compressor"
"""The tool that makes these formats."""


def compressed(name: str, scheme: str, words: str, *, bits: float, served_on: str, **settings: str) -> ExportFormat:
    """The format of llm-compressor's ``scheme``, whose linear layers are in ``words``, and ``bits`` a weight with its
    scales.

    ``method`` among its ``settings`` is how ``compressor.py`` quantises. GPTQ's formats omit it: they were the first,
    and existing artifacts keep their identity.
    """
    return quantized(
        name,
        tool=LLM_COMPRESSOR,
        kind=scheme,
        what=f"linear layers {words}, as compressed-tensors for vLLM",
        bits=bits,
        only_matrices=True,
        served_on=served_on,
        **settings,
    )
