"""Which weights a training changes, and how those of its base are held: one line per variant.

Without torch, as callers that ask what a recipe's variant needs have none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Weights = Literal["fp32", "fp16", "bf16", "nf4"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """``adapters``: low-rank adapters train and the base stays unchanged; ``four_bit``: the base is held in 4 bits."""

    adapters: bool
    four_bit: bool = False

    def weights(self, precision: Literal["fp32", "fp16", "bf16"]) -> Weights:
        """How the base's weights are held under arithmetic of ``precision``.

        Trained weights are always float32, as small updates vanish otherwise.
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
