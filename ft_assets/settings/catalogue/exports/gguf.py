"""What the formats for llama.cpp and Ollama have in common."""

from types import MappingProxyType

from ft_assets.settings.catalogue.export_format import ExportFormat
from ft_assets.settings.catalogue.exports.merged import MERGED

LLAMA_CPP = "llama.cpp"
"""The tool that makes them, and reads them."""
QUANTIZED = "quantized_model"
QUANTIZE = "ft_assets.workers.exports.quantized:quantize_model"
CODE_VERSION = "1"


def gguf(kind: str, bits: str) -> ExportFormat:
    """The format of llama.cpp's quantisation ``kind``, which takes about ``bits`` bits a weight."""
    return ExportFormat(
        name=f"gguf-{kind.lower()}",
        what=f"merged, in {bits} bits a weight, as a GGUF file for llama.cpp and Ollama",
        asset=QUANTIZED,
        work=QUANTIZE,
        code_version=CODE_VERSION,
        made_of=MERGED,
        settings=MappingProxyType({"format": f"gguf-{kind.lower()}", "tool": LLAMA_CPP, "kind": kind}),
    )
