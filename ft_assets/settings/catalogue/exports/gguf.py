"""What the formats for llama.cpp and Ollama have in common."""

from ft_assets.settings.catalogue.export_format import ExportFormat
from ft_assets.settings.catalogue.exports.quantized import quantized

LLAMA_CPP = "llama.cpp"
"""The tool that makes them, and reads them."""


def gguf(kind: str, bits: float) -> ExportFormat:
    """The format of llama.cpp's quantisation ``kind``, which takes about ``bits`` bits a weight."""
    what = f"in {bits:g} bits a weight, as a GGUF file for llama.cpp and Ollama"
    return quantized(f"gguf-{kind.lower()}", tool=LLAMA_CPP, kind=kind, what=what, bits=bits)
