"""Heuristics of an example's quality: numbers to report, and a flag for each filter of the policy."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ft_assets.datasets.policy import QualitySettings

REPETITIVE = 0.3
"""The share of repeated 5-word sequences, or of text in repeated lines, above which an answer counts."""

MEASURES = pa.schema(
    [
        pa.field("characters", pa.int32(), nullable=False),
        pa.field("answer_characters", pa.int32(), nullable=False),
        pa.field("words", pa.int32(), nullable=False),
        pa.field("repetition", pa.float32(), nullable=False),
        pa.field("empty_answer", pa.bool_(), nullable=False),
        pa.field("short", pa.bool_(), nullable=False),
        pa.field("long", pa.bool_(), nullable=False),
        pa.field("repetitive", pa.bool_(), nullable=False),
        pa.field("truncated", pa.bool_(), nullable=False),
    ]
)
"""The columns of ``measure``, in their order."""

# White space, dots, dashes and invisible characters say nothing.
_NOTHING = r"^[\s\p{Z}\p{Cf}.\-_…–—]*$"
_LONGEST_NOTHING = 16


def measure(examples: pa.RecordBatch, texts: pa.Array, settings: QualitySettings) -> pa.RecordBatch:
    """The MEASURES of each of ``examples``, whose flat texts are ``texts``.

    ``characters`` (code points) and ``words`` are of the whole text; the rest is of the answer: the last assistant
    turn (a preference's: of ``chosen``), or the plain text itself. A turn that calls tools needs no words: it is not
    empty, short or truncated. ``repetition`` is the larger of the share of 5-word sequences that stood before in the
    answer and of the share of its text in lines that did (after Rae et al. 2021, "Scaling Language Models", A1.1, who
    drop web pages from 0.15 and 0.3 on). Plain text is never ``truncated``: chunks end where they must.
    """
    from ft_assets.datasets.quality.breaks import UNFINISHED, find_breaks
    from ft_assets.datasets.quality.scan import count_characters, count_repeats, count_words
    from ft_assets.datasets.similarity.hashing import text_buffers

    rows = examples.num_rows
    answers, calls, turns = _answers(examples)
    characters, answer_characters, words = (np.empty(rows, np.int32) for _ in range(3))
    repetition = np.empty(rows, np.float32)
    breaks = np.empty(rows, np.uint8)
    whole, answer = text_buffers(texts), text_buffers(answers)
    count_characters(*whole, characters)
    count_words(*whole, words)
    count_characters(*answer, answer_characters)
    count_repeats(*answer, repetition)
    find_breaks(*answer, UNFINISHED, breaks)
    empty = _say_nothing(answers, answer_characters) & ~calls
    flags = {
        "empty_answer": empty,
        "short": (answer_characters < settings.min_answer_characters) & ~calls,
        "long": characters > settings.max_characters,
        "repetitive": repetition > REPETITIVE,
        "truncated": (breaks > 0) & turns & ~calls,
    }
    numbers = {
        "characters": characters,
        "answer_characters": answer_characters,
        "words": words,
        "repetition": repetition,
    }
    columns = [pa.array(column) for column in (*numbers.values(), *flags.values())]
    return pa.RecordBatch.from_arrays(columns, schema=MEASURES)


def _answers(examples: pa.RecordBatch) -> tuple[pa.Array, np.ndarray, np.ndarray]:
    """The answer of each example, whether it calls tools, and whether it is a turn (and no plain text)."""
    answers = examples.column("text")
    calls = np.zeros(len(answers), np.bool_)
    turns = np.zeros(len(answers), np.bool_)
    # A preference has turns in both columns: the chosen answer is put over the prompt's earlier ones.
    for name in ("messages", "chosen"):
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
    """For each list of turns the place of its last assistant turn among the flattened ``roles``, or -1."""
    offsets = turns.offsets.to_numpy()
    offsets = offsets - offsets[0]
    assistant = pc.equal(roles, "assistant").to_numpy(zero_copy_only=False)
    latest = np.maximum.accumulate(np.where(assistant, np.arange(len(roles)), -1))
    # latest[i] is the last assistant turn among turns 0..i, of whichever list; an empty list looks before its start.
    last = np.where(offsets[1:] > 0, latest[offsets[1:] - 1], -1)
    return np.where(last >= offsets[:-1], last, -1)


def _say_nothing(answers: pa.Array, lengths: np.ndarray) -> np.ndarray:
    """Whether answers hold nothing to read; only short ones are looked into."""
    found = np.zeros(len(answers), np.bool_)
    brief = np.flatnonzero(lengths < _LONGEST_NOTHING)
    matched = pc.match_substring_regex(answers.take(pa.array(brief)), _NOTHING)
    found[brief] = matched.to_numpy(zero_copy_only=False)
    return found
