"""Settings as a worker gets them: the recipe's, with nothing left open."""

from typing import Literal

from pydantic import Field

from ft_assets.recipes.training import LoraSettings, TrainingSettings


class SettledTraining(TrainingSettings):
    """``params["training"]`` of a checkpoint."""

    learning_rate: float = Field(gt=0.0, le=1.0)
    epochs: int = Field(ge=1)
    global_batch_size: int = Field(ge=1)
    micro_batch_size: int = Field(ge=1)
    precision: Literal["fp32", "bf16", "fp16"]


class SettledLora(LoraSettings):
    """``params["lora"]`` of a checkpoint, where it is not null."""

    rank: int = Field(ge=1)
    alpha: int = Field(ge=1)
