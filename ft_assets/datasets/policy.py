"""The dataset policy (``dataset.yaml``): how an upload is cleaned and split. It is part of a version's identity."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ft_assets.recipes.strict import parse_strict, parse_yaml

# Not a setting: below this, neither training nor the scores on a holdout mean anything.
MIN_EXAMPLES = 100


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SplitSettings(_Settings):
    """How rows are divided. The side of a row follows from its content (or group) and the seed alone."""

    group_by: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="Name of a field of each row, such as `source`: rows with the same value stay on one side.",
    )
    validation: float = Field(
        default=0.1, gt=0, le=0.5, description="Share of the rows (or groups) that training watches its loss on."
    )
    holdout: float = Field(
        default=0.1, gt=0, le=0.5, description="Share of the rows (or groups) that only the final evaluation sees."
    )
    seed: int = Field(default=0, ge=0, le=2**31 - 1, description="Another seed gives another split.")

    @model_validator(mode="after")
    def _leave_rows_to_train_on(self) -> Self:
        if self.validation + self.holdout > 0.8:
            raise ValueError("validation and holdout together take more than 0.8 and leave too little to train on")
        return self


class DatasetPolicy(_Settings):
    """What to do with an upload. ``DatasetPolicy()`` is what an upload without a ``dataset.yaml`` gets."""

    on_bad_row: Literal["reject", "drop"] = Field(
        default="reject",
        description="`reject`: one bad row refuses the upload. `drop`: bad rows are left out and listed in the report.",
    )
    max_dropped_share: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="With `on_bad_row: drop`: the upload is refused where more than this share of its rows is bad.",
    )
    split: SplitSettings = Field(default_factory=SplitSettings, description="How rows are divided.")


def load_policy(text: str, where: str) -> DatasetPolicy:
    """The policy in the YAML ``text``; an empty text is the default policy.

    Args:
        text: the contents of a ``dataset.yaml``.
        where: its name, for errors.

    Raises:
        BadRecipe: for bad YAML (with line and column), and for unknown keys (with the nearest known) and bad values.
    """
    value = parse_yaml(text, where)
    return parse_strict(DatasetPolicy, {} if value is None else value, where)
