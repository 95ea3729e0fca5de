"""Which weights a training changes, and in which dtype those of its base are held: one line per variant.

Without torch, which not all callers have.
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

    def weights(
        self,
        precision: Literal["fp32", "fp16", "bf16", "fp8"],
        trained: Literal["auto", "float32", "bfloat16"] = "float32",
    ) -> Weights:
        """The dtype of the base's weights under arithmetic of ``precision``, if trained weights are ``trained``."""
        if self.four_bit:
            return "nf4"
        if self.adapters:
            return "bf16" if precision == "fp8" else precision
        return "bf16" if trained == "bfloat16" else "fp32"


VARIANTS: Mapping[str, Variant] = MappingProxyType(
    {
        "full": Variant(adapters=False),
        "lora": Variant(adapters=True),
        "qlora": Variant(adapters=True, four_bit=True),
    }
)
