"""The work of ``quantized_model``: a merged model in fewer bits, by the tool of its format."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ft_assets.settings.catalogue.exports.compressed import LLM_COMPRESSOR
from ft_assets.settings.catalogue.exports.gguf import LLAMA_CPP
from ft_assets.workers.exports.compressed import make_compressed
from ft_assets.workers.exports.gguf import make_gguf
from ft_resources.worker_context import WorkContext, WorkResult

TOOLS: Mapping[str, Callable[[WorkContext], WorkResult]] = MappingProxyType(
    {LLAMA_CPP: make_gguf, LLM_COMPRESSOR: make_compressed}
)
"""By the ``tool`` that a format's settings name."""


def quantize_model(context: WorkContext) -> WorkResult:
    """Quantise the input ``exported``, a merged model of the input ``adapter``; see the tool's own function."""
    return TOOLS[context.params["tool"]](context)
