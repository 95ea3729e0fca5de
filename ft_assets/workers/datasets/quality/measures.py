"""Heuristics of an example's quality: its length, and a flag for each filter of the policy."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ft_assets.settings.dataset.policy import QualitySettings

REPETITIVE = 0.3
"""An answer is flagged if its share of repeated 5-word sequences, or of text in repeated lines, is above this."""

MEASURES = pa.schema(
    [
        pa.field("characters", pa.int32(), nullable=False),
        pa.field("empty_answer", pa.bool_(), nullable=False),
        pa.field("short", pa.bool_(), nullable=False),
        pa.field("long", pa.bool_(), nullable=False),
        pa.field("repetitive", pa.bool_(), nullable=False),
        pa.field("truncated", pa.bool_(), nullable=False),
    ]
)
"""The columns of ``measure``, in their order."""

# White space, dots, dashes and invisible characters have no meaning by themselves.
_NOTHING = r"^[\s\p{Z}\p{Cf}.\-_…–—]*$"
_LONGEST_NOTHING = 16


def measure(examples: pa.RecordBatch, texts: pa.Array, settings: QualitySettings) -> pa.RecordBatch:
    """The MEASURES of each of ``examples``, whose flat texts are ``texts``.

    ``characters`` (code points) and ``long`` are of the whole text. The rest is of the answer: the last assistant turn
    (for a preference, that of ``chosen``), or the plain text itself. A turn that calls tools needs no words: it is not
    empty, short or truncated. ``repetitive`` goes by the larger of two shares: of 5-word sequences that occurred before
    in the answer, and of its text in lines that did (after Rae et al. 2021, "Scaling Language Models", A1.1, who drop
    web pages from 0.15 and 0.3 on). Plain text is never ``truncated``: chunks may end anywhere.
    """
    from ft_assets.workers.datasets.quality.breaks import UNFINISHED, find_breaks
    from ft_assets.workers.datasets.quality.scan import count_repeats
    from ft_assets.workers.datasets.similarity.hashing import text_buffers

    answers, calls, turns = _answers(examples)
    characters, answer_characters = pc.utf8_length(texts), pc.utf8_length(answers).to_numpy()
    repetition = np.empty(len(answers), np.float32)
    breaks = np.empty(len(answers), np.uint8)
    answer = text_buffers(answers)
    count_repeats(*answer, repetition)
    find_breaks(*answer, UNFINISHED, breaks)
    empty = _say_nothing(answers, answer_characters) & ~calls
    flags = (
        empty,
        (answer_characters < settings.min_answer_characters) & ~calls,
        characters.to_numpy() > settings.max_characters,
        repetition > REPETITIVE,
        (breaks > 0) & turns & ~calls,
    )
    return pa.RecordBatch.from_arrays([characters, *map(pa.array, flags)], schema=MEASURES)


def _answers(examples: pa.RecordBatch) -> tuple[pa.Array, np.ndarray, np.ndarray]:
    """The answer of each example, whether it calls tools, and whether it is a turn (not plain text)."""
    answers = examples.column("text")
    calls = np.zeros(len(answers), np.bool_)
    turns = np.zeros(len(answers), np.bool_)
    # An answer overrides earlier ones in the prompt; of two answers, the chosen one overrides the rejected.
    for name in ("messages", "rejected", "chosen"):
        values = examples.column(name).flatten()
        if not len(values):
            continue
        last = _last_assistants(examples.column(name), values.field("role"))
        found = last >= 0
        places = pa.array(last, mask=~found)
        contents = values.field("content").take(places)
        answers = contents if found.all() else pc.coalesce(contents, answers)
        called = pc.not_equal(values.field("tool_calls").take(places), "").fill_null(False)
        calls = np.where(found, called.to_numpy(zero_copy_only=False), calls)
        turns |= found
    return answers, calls, turns


def _last_assistants(turns: pa.ListArray, roles: pa.Array) -> np.ndarray:
    """For each list of turns, the index of its last assistant turn among the flattened ``roles``, or -1."""
    offsets = turns.offsets.to_numpy()
    offsets = offsets - offsets[0]
    assistant = pc.equal(roles, "assistant").to_numpy(zero_copy_only=False)
    latest = np.maximum.accumulate(np.where(assistant, np.arange(len(roles)), -1))
    # latest[i] is the last assistant turn among turns 0..i, of any list; an empty list would read before its start.
    last = np.where(offsets[1:] > 0, latest[offsets[1:] - 1], -1)
    return np.where(last >= offsets[:-1], last, -1)


def _say_nothing(answers: pa.Array, lengths: np.ndarray) -> np.ndarray:
    """Whether answers contain nothing to read; only short ones are checked."""
    found = np.zeros(len(answers), np.bool_)
    brief = np.flatnonzero(lengths < _LONGEST_NOTHING)
    matched = pc.match_substring_regex(answers.take(pa.array(brief)), _NOTHING)
    found[brief] = matched.to_numpy(zero_copy_only=False)
    return found
