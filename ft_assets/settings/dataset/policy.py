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
        description="Longest piece, in characters; pieces end at headings, paragraphs or sentences if possible.",
    )
    pdf: Literal["text", "tables"] = added_field(
        "text",
        description="`text`: a PDF's text in the order in which its program wrote it, and column by column where that "
        "was across columns. `tables`: pages with ruled tables column by column and from top to bottom, each table as "
        "rows of `|` cells; about a tenth of a second for each page.",
    )


class DuplicateSettings(StrictModel):
    """Near-duplicates; exact ones are always left out."""

    near: Literal["remove", "keep", "off"] = Field(
        default="remove",
        description="`remove`: only the first of near-duplicates is kept. `keep`: they are reported and stay in one "
        "split. `off`: they are not searched for.",
    )
    threshold: float = Field(
        default=0.9,
        ge=0.7,
        le=1,
        description="Rows with at least this Jaccard similarity of character 5-grams count as near-duplicates.",
    )
    keep: Annotated[tuple[RowId, ...], AfterValidator(unique)] = added_field(
        (),
        max_length=10_000,
        description="Rows that are no near-duplicates, by the id that the report shows beside each pair. They stay; an "
        "exact copy of one does not.",
    )


class ParaphraseSettings(StrictModel):
    """An opt-in search for test items in other words or, by a multilingual encoder, in another language."""

    encoder: str = Field(description="Key of an encoder added with `ft dataset encoder add`, such as e5.v1.")
    threshold: float = Field(
        gt=0,
        lt=1,
        description="An example counts if the cosine of its vector and a question's is at least this. Encoders differ: "
        "look at the pairs in the report, beginning with 0.8.",
    )
    action: Literal["remove", "escalate", "warn"] = Field(
        default="warn", description="As `contamination.action`, for these examples; they are reported apart."
    )


class ContaminationSettings(StrictModel):
    """Examples that reveal test items: a whole question, or mostly text of items, in any formatting."""

    suites: tuple[Annotated[str, text_check(check_suite_key)], ...] | Literal["all"] = Field(
        default="all",
        description="Keys of eval suites, or `all`: every suite that the platform has when a version is added.",
    )
    threshold: float = Field(
        default=0.5,
        gt=0,
        lt=1,
        description="An example with a larger share of its 13-word sequences in test items counts, too.",
    )
    action: Literal["remove", "escalate", "warn"] = Field(
        default="remove",
        description="`remove`: such examples are left out. `escalate`: they stay, and the version is held until a "
        "person approves it. `warn`: they stay and are reported.",
    )
    paraphrases: ParaphraseSettings | None = added_field(
        None, description="Search for items in other words, too; off by default."
    )


class PersonalDataSettings(StrictModel):
    """Personal data and secrets in the texts."""

    action: Literal["detect", "scrub", "escalate", "off"] = Field(
        default="detect",
        description="`detect`: report them. `scrub`: put typed placeholders such as <EMAIL> in their place. "
        "`escalate`: report, and hold the version until a person approves it. `off`: do not search.",
    )
    types: Annotated[tuple[PersonalType, ...], AfterValidator(unique)] = Field(
        default=("card", "iban", "phone", "email", "ip", "secret"), min_length=1, description="Types to search for."
    )
    phone_region: str = Field(
        default="auto",
        pattern="^(auto|[A-Z]{2})$",
        description="Country of phone numbers written without a country code. `auto`: by the language and the country "
        "codes of each row.",
    )
    recogniser: RecogniserSettings | None = added_field(
        None, description="Search for national and medical numbers, too; off by default."
    )
    names: NameSettings | None = added_field(
        None, description="Search for names of people and for places, too, with a language model; off by default."
    )

    @property
    def searched(self) -> tuple[str, ...]:
        """All possible types of findings: ``types``, and those of the recogniser and the model if set."""
        ids = ("id",) if self.recogniser else ()
        return (*self.types, *ids, *(self.names.types if self.names else ()))


class ToxicitySettings(StrictModel):
    """An opt-in screen by a text-classification model."""

    classifier: str = Field(description="Key of a classifier added with `ft dataset classifier add`, such as toxic.v1.")
    labels: tuple[str, ...] = Field(min_length=1, description="The model's labels that count.")
    threshold: float = Field(
        default=0.5, gt=0, lt=1, description="An example counts if such a label has at least this score."
    )
    action: Literal["remove", "escalate", "reject"] = Field(
        default="remove",
        description="`remove`: the examples are left out. `escalate`: the version is held for a person. `reject`: "
        "the upload is refused if more than max_share of its examples count.",
    )
    max_share: float = Field(default=0.0, ge=0, lt=1, description="With `reject`: the largest share that is accepted.")


class QualitySettings(StrictModel):
    """Quality heuristics. All are reported as warnings; those in ``filter`` also remove rows."""

    filter: tuple[Filter, ...] = Field(default=(), description="Heuristics whose rows are left out.")
    min_answer_characters: int = Field(default=1, ge=1, le=10_000, description="Shorter answers count as `short`.")
    max_characters: int = Field(default=100_000, ge=100, le=10_000_000, description="Longer examples count as `long`.")
    language: str | None = Field(
        default=None,
        pattern="^[a-z]{2}$",
        description="Expected language (ISO 639-1); other languages are reported as a warning.",
    )


class BalanceSettings(StrictModel):
    """Leave out training rows of over-represented categories."""

    by: Literal["kind", "group"] = Field(default="kind", description="`kind` or `group`.")
    max_ratio: float = Field(
        default=3.0, ge=1, description="Largest category, as a multiple of the rows of the median category."
    )


class MixSettings(StrictModel):
    """Training rows of another dataset version, mixed in."""

    dataset: Annotated[str, text_check(DatasetKey.parse)] = Field(
        description="Key of a version that belongs to the same tenant or to `shared`, such as shared.general.v1."
    )
    share: float = Field(gt=0, le=0.5, description="Their share of all training rows after mixing.")
    purpose: Literal["general", "safety"] = Field(default="general", description="What they are for; it is recorded.")


class SplitSettings(StrictModel):
    """How rows are split. A row's split depends only on its content (or group) and the seed."""

    group_by: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="Name of a field of each row, such as `source`: rows with equal values stay in one split. "
        "Without it, rows with equal prompts do.",
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

    form: RowFormName = Field(default="auto", description="Form of the rows; `auto` recognises it by its fields.")
    fields: Fields = Field(
        default_factory=dict,
        description="Maps fields of the form to fields of the upload, if they differ, such as {prompt: question}. A "
        "list of fields, such as {prompt: [subject, body]}, makes one text of theirs, with a blank line between them. "
        "`kind`, the label by which scores are broken down, may be mapped too. `weight` is the field that says how "
        "much a row counts in training, such as {weight: weight}. `ignore` lists fields of the upload that are left "
        "out on purpose, such as {ignore: [score]}.",
    )
    turns: TurnSettings | None = added_field(
        None, description="What turns call their fields and roles, where that is not role, content, user and assistant."
    )
    labels: LabelSettings | None = added_field(
        None, description="What labels say, where that is not true and false, or 1 and 0."
    )
    on_bad_row: Literal["reject", "drop"] = Field(
        default="reject",
        description="`reject`: one bad row refuses the upload. `drop`: bad rows are left out and listed in the report.",
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
    split: SplitSettings = Field(default_factory=SplitSettings, description="How rows are split.")
    generated_by: str | None = Field(
        default=None, min_length=1, max_length=200, description="Model that generated the answers, if any."
    )
    source: Source | None = added_field(
        None, description="Where `ft dataset watch` takes the rows from; it is no part of a version."
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
