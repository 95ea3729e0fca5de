"""Facts: what an artifact's manifest says of it for later steps. Their kinds, as readers rely on them; and those of
members of its JSON files.

Workers write them, and a tenant's image may be its worker. So the store checks them where it finds an artifact, and no
reader meets another kind. A fact that nothing here names is only shown.
"""

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict

_shape = with_config(ConfigDict(strict=True, allow_inf_nan=False))
# No float is exact beyond it, and some figures are multiplied.
Count = Annotated[int, Field(ge=0, le=2**53)]


@_shape
class _Rows(TypedDict):
    train: Count
    validation: Count
    holdout: Count


@_shape
class _Histogram(TypedDict):
    edges: list[float]
    counts: list[Count]


@_shape
class _Split(TypedDict, total=False):
    tokens: Count
    examples: Count
    documents: Count


@_shape
class _Score(TypedDict):
    metric: str
    value: float | None
    n: Count


@_shape
class _Save(TypedDict):
    step: Count
    attempt: Count


@_shape
class _Alert(TypedDict):
    kind: Literal["slow", "starved", "straggler", "validation", "unmoved"]
    step: Count
    what: str
    remedy: str


@_shape
class _Facts(TypedDict, total=False):
    # Bases, and models made of them.
    architecture: str
    bytes: Count
    chat_template: bool
    new_tokens: Count
    parameters: Count
    revision: str | None
    source: str
    template_digest: str
    tokenizer_as_transformers: bool | None
    tokenizer_digest: str
    tokenizer_warning: str
    # Data.
    form: str
    names: dict[str, str]
    dropped: Count
    length_histogram: _Histogram
    # Packs.
    documents: Count
    examples: Count
    learned_tokens: Count
    max_length: Count
    spelled: Count
    tokens: Count
    validation: _Split
    windows: Count
    # Trainings.
    alerts: list[_Alert]
    carried_from: str
    continued_from: str
    data_wait_s: float
    isolation: dict[str, Any]
    kept: list[tuple[Count, float]]
    mfu: float | None
    resumed: list[_Save]
    seconds: float
    steps: Count
    stopped_early: Count
    tokens_per_s: float
    train_loss: float
    validation_loss: list[tuple[Count, float]]
    validation_not_finite: list[Count]
    validation_perplexity: list[tuple[Count, float]]
    weights_at: str
    # Reports and adapters.
    line: str
    metrics: dict[str, Any]
    safety: dict[str, Any]
    scores: dict[str, _Score]
    step: Count
    summary: dict[str, Any]
    # Suites and models beside them.
    entities: list[str]
    items: Count
    kind: str
    labels: list[str]
    language: str
    multi_label: bool
    pooling: str


@_shape
class _RawDataset(_Facts, total=False):
    files: Count
    rows: Count | None


@_shape
class _Dataset(TypedDict, total=False):
    dropped: dict[str, Count]
    form: str
    held: list[str]
    labels: dict[str, Any]
    length_histogram: _Histogram
    rows: _Rows
    rows_read: Count
    warnings: list[str]


@_shape
class _Training(TypedDict, total=False):
    epochs: Count
    global_batch_size: Count
    max_steps: Count | None
    seed: Count


@_shape
class _Lora(TypedDict, total=False):
    target_modules: str | list[str]


@_shape
class _Recipe(TypedDict, total=False):
    lora: _Lora | None
    method: str
    training: _Training
    variant: str


@_shape
class _AdapterConfig(TypedDict, total=False):
    lora_alpha: float
    r: Count
    rank_pattern: dict[str, Count] | None
    target_modules: str | list[str] | None
    use_dora: bool
    use_rslora: bool


@_shape
class _Configuration(TypedDict, total=False):
    made_for: str


_FILES = {"recipe.json": _Recipe, "adapter_config.json": _AdapterConfig, "report/configuration.json": _Configuration}


@cache
def members_of(file: str) -> TypeAdapter[Any] | None:
    """The kinds of members of a JSON file of artifacts, each of which may be missing; None for any."""
    return TypeAdapter(_FILES[file]) if file in _FILES else None


@cache
def facts_of(asset: str) -> TypeAdapter[Any]:
    """The kinds of the facts of ``asset``; each may be missing."""
    return TypeAdapter({"raw_dataset": _RawDataset, "dataset": _Dataset}.get(asset, _Facts))
