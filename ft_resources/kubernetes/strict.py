"""What all of the cluster's settings have in common."""

from pydantic import BaseModel, ConfigDict


class StrictSettings(BaseModel):
    """Unknown keys, other types, NaN and infinities are errors; frozen."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
