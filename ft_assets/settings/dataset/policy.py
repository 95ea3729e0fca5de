"""The dataset policy (``dataset.yaml``): how an upload is read, cleaned and split. Part of a version's identity."""

import json
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from ft_assets.settings.catalogue.forms import RowFormName
from ft_assets.settings.dataset.recogniser import NameSettings, RecogniserSettings
from ft_assets.settings.dataset.source import Source
from ft_assets.settings.dataset.spelling import LabelSettings, TurnSettings
from ft_assets.settings.keys import DatasetKey, check_suite_key
from ft_resources.settings import text_check, unique
from ft_resources.strict import parse_strict, parse_yaml
from ft_resources.strict_model import StrictModel, added_field

# Not a setting: below this, neither training nor scores on a holdout are meaningful.
MIN_EXAMPLES = 100
MIN_CHUNK = 200

RowId = Annotated[str, Field(pattern="^[0-9a-f]{12}$")]
"""The first digits of a row's content key: it stays the same wherever the row stands."""
PersonalType = Literal["card", "iban", "phone", "email", "ip", "secret"]
Filter = Literal["empty_answer", "short", "long", "repetitive", "truncated"]


JOINED = ("prompt", "completion", "instruction", "input", "output", "system", "text")


def _lists_where_there_are_several(fields: dict[str, str | tuple[str, ...]]) -> dict[str, str | tuple[str, ...]]:
    for name, value in fields.items():
        if isinstance(value, str):
            if name == "ignore":
                raise ValueError("ignore should be a list of fields")
        elif name not in (*JOINED, "ignore"):
            raise ValueError(
                f"{name} should be the name of one field; only {', '.join(JOINED)} may be made of several, each a text"
            )
        elif not value and name != "ignore":
            raise ValueError(f"{name} should be the name of a field, or a list of such names")
    return fields


Fields = Annotated[dict[str, str | tuple[str, ...]], AfterValidator(_lists_where_there_are_several)]


class TextSettings(StrictModel):
    """How texts and documents without rows become examples."""

    chunk_characters: int = Field(
        default=4000,
        ge=MIN_CHUNK,
        le=100_000,
        description="Maximum length of a piece, in characters; pieces end at headings, paragraphs or sentences where "
        "possible.",
    )
    pdf: Literal["text", "tables"] = added_field(
        "text",
        description="`text`: a PDF's text in its stored order, or column by column where that order runs across "
        "columns. "
        "`tables`: pages with ruled tables column by column and from top to bottom, each table as rows of "
        "`|` cells; about a tenth of a second for each page.",
    )


class DuplicateSettings(StrictModel):
    """Near-duplicates; exact ones are always left out."""

    near: Literal["remove", "keep", "off"] = Field(
        default="remove",
        description="`remove`: keep only the first of near-duplicates. `keep`: report them and keep them in one split. "
        "`off`: do not search for them.",
    )
    threshold: float = Field(
        default=0.9,
        ge=0.7,
        le=1,
        description="Minimum Jaccard similarity of character 5-grams for near-duplicates.",
    )
    keep: Annotated[tuple[RowId, ...], AfterValidator(unique)] = added_field(
        (),
        max_length=10_000,
        description="Row ids to keep although they look like near-duplicates; the report shows the ids of each pair. "
        "Exact copies are still removed.",
    )


class ParaphraseSettings(StrictModel):
    """An opt-in search for test items in other words or, by a multilingual encoder, in another language."""

    encoder: str = Field(description="Key of an encoder added with `ft dataset encoder add`, such as e5.v1.")
    threshold: float = Field(
        gt=0,
        lt=1,
        description="Minimum cosine similarity between an example and a question. Encoders differ: start with 0.8 and "
        "check the pairs in the report.",
    )
    action: Literal["remove", "escalate", "warn"] = Field(
        default="warn", description="As `contamination.action`, for these examples; they are reported separately."
    )


class ContaminationSettings(StrictModel):
    """Examples that reveal test items: a whole question, or mostly text of items, in any formatting."""

    suites: tuple[Annotated[str, text_check(check_suite_key)], ...] | Literal["all"] = Field(
        default="all",
        description="Keys of evaluation suites, or `all`: every suite registered when a version is added.",
    )
    threshold: float = Field(
        default=0.5,
        gt=0,
        lt=1,
        description="Maximum share of an example's 13-word sequences that may occur in test items.",
    )
    action: Literal["remove", "escalate", "warn"] = Field(
        default="remove",
        description="`remove`: drop such examples. `escalate`: keep them, and hold the version until a person approves "
        "it. `warn`: keep and report them.",
    )
    paraphrases: ParaphraseSettings | None = added_field(
        None, description="Also search for paraphrased items; off by default."
    )


class PersonalDataSettings(StrictModel):
    """Personal data and secrets in the texts."""

    action: Literal["detect", "scrub", "escalate", "off"] = Field(
        default="detect",
        description="`detect`: report them. `scrub`: put typed placeholders such as <EMAIL> in their place. "
        "`escalate`: report, and hold the version until a person approves it. `off`: do not search.",
    )
    types: Annotated[tuple[PersonalType, ...], AfterValidator(unique)] = Field(
        default=("card", "iban", "phone", "email", "ip", "secret"),
        min_length=1,
        description="Types of personal data to search for.",
    )
    phone_region: str = Field(
        default="auto",
        pattern="^(auto|[A-Z]{2})$",
        description="Country of phone numbers written without a country code. `auto`: by the language and the country "
        "codes of each row.",
    )
    recogniser: RecogniserSettings | None = added_field(
        None, description="Also search for national and medical numbers; off by default."
    )
    names: NameSettings | None = added_field(
        None, description="Also search for names of people and places, with a language model; off by default."
    )

    @property
    def searched(self) -> tuple[str, ...]:
        """All possible types of findings: ``types``, and those of the recogniser and the model if set."""
        ids = ("id",) if self.recogniser else ()
        return (*self.types, *ids, *(self.names.types if self.names else ()))


class ToxicitySettings(StrictModel):
    """An opt-in screen by a text-classification model."""

    classifier: str = Field(description="Key of a classifier added with `ft dataset classifier add`, such as toxic.v1.")
    labels: tuple[str, ...] = Field(min_length=1, description="Labels of the classifier that count.")
    threshold: float = Field(
        default=0.5, gt=0, lt=1, description="Minimum score of such a label for an example to count."
    )
    action: Literal["remove", "escalate", "reject"] = Field(
        default="remove",
        description="`remove`: drop the examples. `escalate`: hold the version until a person approves it. `reject`: "
        "refuse the upload if more than max_share of its examples count.",
    )
    max_share: float = Field(default=0.0, ge=0, lt=1, description="With `reject`: the maximum share that is accepted.")


class QualitySettings(StrictModel):
    """Quality heuristics. All are reported as warnings; those in ``filter`` also remove rows."""

    filter: tuple[Filter, ...] = Field(default=(), description="Heuristics whose matching rows are dropped.")
    min_answer_characters: int = Field(
        default=1, ge=1, le=10_000, description="Answers with fewer characters count as `short`."
    )
    max_characters: int = Field(
        default=100_000, ge=100, le=10_000_000, description="Examples with more characters count as `long`."
    )
    language: str | None = Field(
        default=None,
        pattern="^[a-z]{2}$",
        description="Expected language (ISO 639-1); other languages cause a warning.",
    )


class BalanceSettings(StrictModel):
    """Leave out training rows of over-represented categories."""

    by: Literal["kind", "group"] = Field(
        default="kind", description="Field that defines the categories: `kind` or `group`."
    )
    max_ratio: float = Field(
        default=3.0, ge=1, description="Maximum size of a category, as a multiple of the median category's rows."
    )


class MixSettings(StrictModel):
    """Training rows of another dataset version, mixed in."""

    dataset: Annotated[str, text_check(DatasetKey.parse)] = Field(
        description="Key of a dataset version of the same tenant or of `shared`, such as shared.general.v1."
    )
    share: float = Field(gt=0, le=0.5, description="Share of all training rows after mixing.")
    purpose: Literal["general", "safety"] = Field(default="general", description="Purpose of these rows (recorded).")


class SplitSettings(StrictModel):
    """How rows are split. A row's split depends only on its content (or group) and the seed."""

    group_by: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="Field whose equal values stay in one split, such as `source`. Without it, rows with equal prompts "
        "stay in one split.",
    )
    validation: float = Field(
        default=0.1, gt=0, le=0.5, description="Share of the rows (or groups) for validation loss during training."
    )
    holdout: float = Field(
        default=0.1, gt=0, le=0.5, description="Share of the rows (or groups) for the final evaluation only."
    )
    seed: int = Field(default=0, ge=0, le=2**31 - 1, description="Seed of the split.")

    @model_validator(mode="after")
    def _leave_rows_to_train_on(self) -> Self:
        if self.validation + self.holdout > 0.8:
            raise ValueError("validation and holdout together take more than 0.8 and leave too little to train on")
        return self


class DatasetPolicy(StrictModel):
    """What to do with an upload. ``DatasetPolicy()`` applies to uploads without a ``dataset.yaml``."""

    form: RowFormName = Field(default="auto", description="Form of the rows; `auto` detects it from the fields.")
    fields: Fields = Field(
        default_factory=dict,
        description="Maps fields of the form to fields of the upload if they differ, such as {prompt: question}. A "
        "list "
        "of fields, such as {prompt: [subject, body]}, is joined into one text, separated by blank lines. "
        "`kind` is the label for scores by kind. `weight` is the weight of a row in training, such as "
        "{weight: weight}. `ignore` lists fields of the upload to ignore, such as {ignore: [score]}.",
    )
    turns: TurnSettings | None = added_field(
        None,
        description="Names of the fields and roles of turns, if they differ from role, content, user and assistant.",
    )
    labels: LabelSettings | None = added_field(
        None, description="Values of the label, if they differ from true and false or 1 and 0."
    )
    on_bad_row: Literal["reject", "drop"] = Field(
        default="reject",
        description="`reject`: one bad row refuses the upload. `drop`: bad rows are dropped and listed in the report.",
    )
    max_dropped_share: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="With `on_bad_row: drop`: the upload is refused if more than this share of its rows is bad.",
    )
    text: TextSettings = Field(default_factory=TextSettings, description="Plain text.")
    duplicates: DuplicateSettings = Field(default_factory=DuplicateSettings, description="Near-duplicates.")
    contamination: ContaminationSettings = Field(default_factory=ContaminationSettings, description="Test items.")
    personal_data: PersonalDataSettings = Field(default_factory=PersonalDataSettings, description="Personal data.")
    toxicity: ToxicitySettings | None = Field(default=None, description="Screening by a classifier; off by default.")
    quality: QualitySettings = Field(default_factory=QualitySettings, description="Heuristics.")
    balance: BalanceSettings | None = Field(default=None, description="Balancing of categories; off by default.")
    mix: tuple[MixSettings, ...] = Field(default=(), max_length=8, description="Other datasets to mix in.")
    split: SplitSettings = Field(
        default_factory=SplitSettings, description="Split of the rows into train, validation and holdout."
    )
    generated_by: str | None = Field(
        default=None, min_length=1, max_length=200, description="Model that generated the answers, if any."
    )
    source: Source | None = added_field(
        None, description="Source of the rows for `ft dataset watch`; not part of a version."
    )


def policy_of(value: dict[str, Any]) -> DatasetPolicy:
    """The policy stored as the JSON ``value``."""
    return DatasetPolicy.model_validate_json(json.dumps(value))


def load_policy(text: str, where: str) -> DatasetPolicy:
    """The policy in the YAML ``text``; an empty text is the default policy.

    Args:
        text: the contents of a ``dataset.yaml``.
        where: the file's name, for errors.

    Raises:
        BadRecipe: for bad YAML (with line and column), and for unknown keys (with the nearest known) and bad values.
    """
    value = parse_yaml(text, where)
    return parse_strict(DatasetPolicy, {} if value is None else value, where)
