"""The common configuration of all pydantic models: user settings, stored records and messages between processes."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class StrictModel(BaseModel):
    """Frozen; unknown keys, other types, NaN and infinities are errors.

    Validators are built when a model is first used: every command imports about a hundred models and uses a few.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)


def added_field(default: Any, **details: Any) -> Any:
    """A pydantic field added to a model after values were stored: dumps omit it while it has its default.

    So the digest of a recipe or report without it is the same as before the field existed, and nothing is made again.
    Declare every field like this that is added to something with a digest. ``details`` are passed to
    ``pydantic.Field``.
    """
    return Field(default, exclude_if=lambda value: value == default, **details)
