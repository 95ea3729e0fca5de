"""The dataset policy (``dataset.yaml``): how an upload is read, cleaned and split. Part of a version's identity."""

import json
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ft_assets.keys import DatasetKey, check_suite_key
from ft_assets.recipes.strict import parse_strict, parse_yaml
from ft_resources.errors import UserError

# Not a setting: below this, neither training nor the scores on a holdout mean anything.
MIN_EXAMPLES = 100

FormName = Literal["auto", "messages", "prompt/completion", "alpaca", "sharegpt", "preference", "text"]
PersonalType = Literal["card", "iban", "phone", "email", "ip", "secret"]
Filter = Literal["empty_answer", "short", "long", "repetitive", "truncated"]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class TextSettings(_Settings):
    """How plain text (TXT, PDF) becomes examples."""

    chunk_characters: int = Field(
        default=4000,
        ge=200,
        le=100_000,
        description="Longest piece, in characters; pieces end at headings, paragraphs or sentences where they can.",
    )


class DuplicateSettings(_Settings):
    """Near-duplicates; exact ones are always left out."""

    near: Literal["remove", "keep", "off"] = Field(
        default="remove",
        description="`remove`: only the first of near-duplicates is kept. `keep`: they are reported and stay on one "
        "side of the split. `off`: they are not looked for.",
    )
    threshold: float = Field(
        default=0.9, ge=0.7, le=1, description="Jaccard similarity of character 5-grams from which rows count as near."
    )


class ContaminationSettings(_Settings):
    """Examples that give away test items: the 13-word sequences they share with them."""

    suites: tuple[str, ...] | Literal["all"] = Field(
        default="all", description="Keys of eval suites, or `all`: those that the platform has when a version is added."
    )
    threshold: float = Field(
        default=0.5,
        gt=0,
        lt=1,
        description="An example with a larger share of its 13-grams in test items counts.",
    )
    action: Literal["remove", "escalate", "warn"] = Field(
        default="remove",
        description="`remove`: such examples are left out. `escalate`: they stay, and the version is held until a "
        "person approves it. `warn`: they stay and are reported.",
    )

    @field_validator("suites")
    @classmethod
    def _are_suites(cls, value: tuple[str, ...] | Literal["all"]) -> tuple[str, ...] | Literal["all"]:
        for key in value if isinstance(value, tuple) else ():
            try:
                check_suite_key(key)
            except UserError as error:
                raise ValueError(f"{error.what}. {error.remedy}") from None
        return value


class PersonalDataSettings(_Settings):
    """Personal data and secrets in the texts."""

    action: Literal["detect", "scrub", "escalate", "off"] = Field(
        default="detect",
        description="`detect`: report them. `scrub`: put typed placeholders such as <EMAIL> in their place. "
        "`escalate`: report, and hold the version until a person approves it. `off`: do not look.",
    )
    types: tuple[PersonalType, ...] = Field(
        default=("card", "iban", "phone", "email", "ip", "secret"), min_length=1, description="What to look for."
    )
    phone_region: str = Field(
        default="US", pattern="^[A-Z]{2}$", description="Country of phone numbers that are written without one."
    )

    @field_validator("types")
    @classmethod
    def _are_different(cls, value: tuple[PersonalType, ...]) -> tuple[PersonalType, ...]:
        if len(set(value)) < len(value):
            raise ValueError("a type is named twice")
        return value


class ToxicitySettings(_Settings):
    """An opt-in screen by a text-classification model."""

    classifier: str = Field(description="Key of a classifier added with `ft dataset classifier add`, such as toxic.v1.")
    labels: tuple[str, ...] = Field(min_length=1, description="Labels of the model that count.")
    threshold: float = Field(default=0.5, gt=0, lt=1, description="Score of such a label from which an example counts.")
    action: Literal["remove", "escalate", "reject"] = Field(
        default="remove",
        description="`remove` the examples, `escalate` (hold the version for a person), or `reject` the upload where "
        "more than max_share of the examples count.",
    )
    max_share: float = Field(default=0.0, ge=0, lt=1, description="With `reject`: the share that is still accepted.")


class QualitySettings(_Settings):
    """Heuristics. All are reported as warnings; those in ``filter`` also remove the rows."""

    filter: tuple[Filter, ...] = Field(default=(), description="Heuristics whose rows are left out.")
    min_answer_characters: int = Field(default=1, ge=1, le=10_000, description="Shorter answers count as `short`.")
    max_characters: int = Field(default=100_000, ge=100, le=10_000_000, description="Longer examples count as `long`.")
    language: str | None = Field(
        default=None, pattern="^[a-z]{2}$", description="Expected language (ISO 639-1); others are warned about."
    )


class BalanceSettings(_Settings):
    """Leave out training rows of categories that have too many."""

    by: str = Field(default="kind", min_length=1, max_length=100, description="`kind` or `group`.")
    max_ratio: float = Field(
        default=3.0, ge=1, description="A category may have this many times the rows of the median category."
    )

    @field_validator("by")
    @classmethod
    def _is_column(cls, value: str) -> str:
        if value not in ("kind", "group"):
            raise ValueError("this should be kind or group")
        return value


class MixSettings(_Settings):
    """Training rows of another dataset version, mixed in."""

    dataset: str = Field(description="Key of a version of the same tenant, or of `shared`, such as shared.general.v1.")
    share: float = Field(gt=0, le=0.5, description="Their share of the training rows afterwards.")
    purpose: Literal["general", "safety"] = Field(default="general", description="What they are for; it is recorded.")

    @field_validator("dataset")
    @classmethod
    def _is_key(cls, value: str) -> str:
        try:
            DatasetKey.parse(value)
        except UserError as error:
            raise ValueError(f"{error.what}. {error.remedy}") from None
        return value


class SplitSettings(_Settings):
    """How rows are divided. The side of a row follows from its content (or group) and the seed alone."""

    group_by: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="Name of a field of each row, such as `source`: rows with the same value stay on one side. Without "
        "it, rows with the same prompt do.",
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

    form: FormName = Field(default="auto", description="Form of the rows; `auto` recognises it by the fields.")
    fields: dict[str, str] = Field(
        default_factory=dict,
        description="Field of the form to field of the upload, where they differ, such as {prompt: question}. `kind` "
        "may be mapped too: the label that scores are broken down by.",
    )
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
    text: TextSettings = Field(default_factory=TextSettings, description="Plain text.")
    duplicates: DuplicateSettings = Field(default_factory=DuplicateSettings, description="Near-duplicates.")
    contamination: ContaminationSettings = Field(default_factory=ContaminationSettings, description="Test items.")
    personal_data: PersonalDataSettings = Field(default_factory=PersonalDataSettings, description="Personal data.")
    toxicity: ToxicitySettings | None = Field(default=None, description="Screen by a classifier; none by default.")
    quality: QualitySettings = Field(default_factory=QualitySettings, description="Heuristics.")
    balance: BalanceSettings | None = Field(default=None, description="Even out categories; not done by default.")
    mix: tuple[MixSettings, ...] = Field(default=(), max_length=8, description="Other datasets to mix in.")
    split: SplitSettings = Field(default_factory=SplitSettings, description="How rows are divided.")
    generated_by: str | None = Field(
        default=None, min_length=1, max_length=200, description="Model that wrote the answers, if one did."
    )


def policy_of(value: dict[str, Any]) -> DatasetPolicy:
    """The policy that was stored as the JSON ``value``."""
    return DatasetPolicy.model_validate_json(json.dumps(value))


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
