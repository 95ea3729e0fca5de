"""The formats in which adapters leave the platform: one file each, and a line in ``EXPORTS``."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from ft_assets.settings.catalogue.export_format import ExportFormat
from ft_assets.settings.catalogue.exports.awq_w4a16 import AWQ_W4A16
from ft_assets.settings.catalogue.exports.fp8_dynamic import FP8_DYNAMIC
from ft_assets.settings.catalogue.exports.gguf_q4_k_m import GGUF_Q4_K_M
from ft_assets.settings.catalogue.exports.gguf_q5_k_m import GGUF_Q5_K_M
from ft_assets.settings.catalogue.exports.gguf_q8_0 import GGUF_Q8_0
from ft_assets.settings.catalogue.exports.gptq_w4a16 import GPTQ_W4A16
from ft_assets.settings.catalogue.exports.gptq_w8a8 import GPTQ_W8A8
from ft_assets.settings.catalogue.exports.merged import MERGED

EXPORTS: Mapping[str, ExportFormat] = MappingProxyType(
    {
        each.name: each
        for each in (
            MERGED,
            GGUF_Q8_0,
            GGUF_Q5_K_M,
            GGUF_Q4_K_M,
            GPTQ_W8A8,
            GPTQ_W4A16,
            AWQ_W4A16,
            FP8_DYNAMIC,
        )
    }
)
"""Every export format by its name."""


def formats_of(asset: str) -> tuple[ExportFormat, ...]:
    """The formats that an asset holds."""
    return tuple(each for each in EXPORTS.values() if each.asset == asset)


if TYPE_CHECKING:
    ExportName = str
else:
    ExportName = Literal[tuple(EXPORTS)]
