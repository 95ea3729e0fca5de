"""The settings of a server that decide what it answers."""

from typing import Literal

from pydantic import Field

from ft_resources.canonical import digest
from ft_resources.strict_model import StrictModel

Dtype = Literal["float32", "float16", "bfloat16"]


class ServerSettings(StrictModel):
    """How a server computes. Parity is proved for these settings and no others."""

    engine: str = Field(min_length=1, description="Engine and version, such as vllm 0.32.0 or embedded.")
    dtype: Dtype = Field(description="What activations are computed in.")
    weight_bits: Literal[4, 8] | None = Field(None, description="Bits of quantised weights; null: not quantised.")
    options: dict[str, str] = Field({}, description="The engine's other options at its start.")

    @property
    def digest(self) -> str:
        """The key of records about these settings."""
        return digest(self.model_dump(mode="json"))

    @property
    def sentence(self) -> str:
        """In words: ``vllm 0.32.0, bfloat16, 4 bits, kv-cache-dtype=fp8``."""
        bits = f"{self.weight_bits} bits" if self.weight_bits else ""
        options = [f"{name}={value}" for name, value in sorted(self.options.items())]
        return ", ".join(filter(None, [self.engine, self.dtype, bits, *options]))
