"""Which weights a training changes, and how those of its base are held: a line a variant.

Without torch, as whoever asks what a recipe's variant needs has none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Weights = Literal["fp32", "fp16", "bf16", "nf4"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """``adapters``: low-rank adapters train and the base stays as it is; ``four_bit``: it is held in 4 bits."""

    adapters: bool
    four_bit: bool = False

    def weights(self, precision: Literal["fp32", "fp16", "bf16"]) -> Weights:
        """How the base's weights are held under arithmetic of ``precision``.

        Weights that train stay in float32 under any, as small updates vanish otherwise.
        """
        if self.four_bit:
            return "nf4"
        return precision if self.adapters else "fp32"


VARIANTS: Mapping[str, Variant] = MappingProxyType(
    {
        "full": Variant(adapters=False),
        "lora": Variant(adapters=True),
        "qlora": Variant(adapters=True, four_bit=True),
    }
)
