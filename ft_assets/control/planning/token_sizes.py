"""Size of the training data: counted in the token pack, or guessed and labelled as such."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ft_assets.control import identity
from ft_assets.control.planning.known_base import KnownBase
from ft_assets.settings.bounds import Bounds
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.recipe.recipe import Recipe
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import HeldForReview, MissingInput

# For English text and common tokenizers, if nothing better is known.
BYTES_PER_TOKEN = 4
# Sample only if reading the rows is cheap.
_SAMPLED_ROWS, _MOST_BYTES_TO_SAMPLE = 256, 64 * 1024 * 1024
# Tokens that a template adds around a turn.
_TOKENS_PER_TURN = 5
_UNKNOWN_SHARE = Bounds(lower=0.1, expected=0.5, upper=1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """Sizes of one epoch.

    Args:
        examples: rows to train on, 0 if unknown.
        learned: share of the tokens that is learned; its bounds are those of a single forward pass.
        document_length: mean over tokens of the length of their document.
        validation_tokens: tokens of one measurement of the validation loss.
        source: source of the numbers.
        counted: whether they are exact.
    """

    tokens: int
    examples: int
    windows: int
    learned: Bounds
    document_length: float
    validation_tokens: int
    source: str
    counted: bool


def token_sizes(artifacts: Artifacts, dataset_key: str, recipe: Recipe, base: KnownBase, recipe_key: str) -> Sizes:
    """The pair's sizes of one epoch; ``recipe_key`` is "" for a recipe that is not registered.

    Raises UserError for an unknown dataset version and for an invalid pair.
    """
    raw = identity.raw_dataset(artifacts, dataset_key)
    try:
        if recipe_key:
            return counted_sizes(identity.token_pack(artifacts, dataset_key, recipe_key).facts)
    except (MissingInput, HeldForReview):
        pass
    return _guessed(artifacts, raw, dataset_key, recipe, base)


def counted_sizes(facts: dict[str, Any]) -> Sizes:
    """The sizes from a token pack's facts."""
    tokens = max(1, facts["tokens"])
    share = min(1.0, facts.get("learned_tokens", tokens) / tokens)
    return Sizes(
        tokens=tokens,
        examples=facts.get("examples", facts.get("documents", 0)),
        windows=max(1, facts["windows"]),
        # A window may consist almost only of answers, and the largest forward pass decides.
        learned=Bounds(lower=share, expected=share, upper=1.0),
        document_length=_document_length(facts),
        validation_tokens=facts.get("validation", {}).get("tokens", 0),
        source="counted in the token pack",
        counted=True,
    )


def _document_length(facts: dict[str, Any]) -> float:
    """Mean over tokens, so that documents are weighted by length; from the midpoints of the histogram."""
    histogram = facts.get("length_histogram") or {}
    edges, counts = histogram.get("edges", []), histogram.get("counts", [])
    middles = [(low + high) / 2 for low, high in pairwise(edges)]
    tokens = sum(count * middle for count, middle in zip(counts, middles, strict=True))
    if tokens:
        return sum(count * middle**2 for count, middle in zip(counts, middles, strict=True)) / tokens
    return facts["tokens"] / max(1, facts.get("documents", facts.get("examples", facts["windows"])))


def _guessed(artifacts: Artifacts, raw: Artifact, dataset_key: str, recipe: Recipe, base: KnownBase) -> Sizes:
    max_length = recipe.packing.max_length
    rows = {"validation": 0, "train": 0}
    try:
        curated: Artifact | None = identity.dataset(artifacts, dataset_key)
        assert curated is not None
        rows = curated.facts["rows"]
    except (MissingInput, HeldForReview):
        curated = None
    each = _sampled_tokens(curated, base, max_length) if curated else None
    share = 1.0
    if curated and each is not None:
        tokens = round(each * rows["train"])
        source = f"a guess: {_SAMPLED_ROWS} rows at most, read with the base's tokenizer"
    else:
        tokens = round(raw.facts["bytes"] / BYTES_PER_TOKEN)
        if curated:
            share, named = rows["train"] / max(1, sum(rows.values())), "the share of rows to train on"
        else:
            split = raw.manifest.identity["params"]["policy"]["split"]
            share, named = 1 - split["validation"] - split["holdout"], "the policy's split"
        tokens = round(tokens * share)
        source = f"a guess from the upload's bytes and {named}, at {BYTES_PER_TOKEN} bytes per token"
    tokens = max(1, tokens)
    length = min(max_length, each or (tokens / rows["train"] if rows["train"] else max_length / 2))
    one_a_window = METHODS[recipe.method].form.own_windows and rows["train"]
    return Sizes(
        tokens=tokens,
        examples=rows["train"] if curated else round(share * (raw.facts.get("rows") or 0)),
        windows=rows["train"] if one_a_window else -(-tokens // max_length),
        learned=_UNKNOWN_SHARE,
        document_length=length,
        validation_tokens=round(tokens * rows["validation"] / rows["train"]) if rows["train"] else 0,
        source=source,
        counted=False,
    )


def _sampled_tokens(curated: Artifact, base: KnownBase, max_length: int) -> float | None:
    """Mean tokens of a training row over evenly spaced rows; None if sampling is expensive or there is no tokenizer."""
    entry = curated.manifest.files.get("train.parquet")
    if entry is None or entry.size > _MOST_BYTES_TO_SAMPLE:
        return None
    tokenizer_file = base.file("tokenizer.json")
    if tokenizer_file is None:
        return None
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from tokenizers import Tokenizer

    try:
        table = pq.read_table(io.BytesIO(curated.read("train.parquet")))
    except pa.ArrowInvalid:
        # The training will report the problem; the guess is made without a sample.
        return None
    if not table.num_rows:
        return None
    chosen = np.unique(np.linspace(0, table.num_rows - 1, _SAMPLED_ROWS).astype(np.int64))
    sample = table.take(chosen).to_pylist()
    texts = [list(_texts(row)) for row in sample]
    tokenizer = Tokenizer.from_buffer(tokenizer_file)
    encodings = tokenizer.encode_batch([text for row in texts for text in row], add_special_tokens=False)
    lengths = iter(len(encoding.ids) + _TOKENS_PER_TURN for encoding in encodings)
    return sum(min(max_length, sum(next(lengths) for _ in row)) for row in texts) / len(sample)


def _texts(row: dict[str, Any]) -> Iterator[str]:
    """The texts of a row's documents, turn by turn; both documents of a preference contain the prompt."""
    if row.get("text"):
        yield row["text"]
    prompt = [turn["content"] + turn["tool_calls"] for turn in row.get("messages") or []]
    answers = [row.get("chosen") or [], row.get("rejected") or []]
    yield from prompt
    if any(answers):
        yield from prompt
    for answer in answers:
        yield from (turn["content"] + turn["tool_calls"] for turn in answer)
