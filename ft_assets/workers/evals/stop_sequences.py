"""A model's greedy continuation of a text until one of several stop texts: lm-eval's ``generate_until``.

As in lm-eval (``HFLM.generate_until`` with ``think_end_token``), a text too long for the context loses its beginning,
thoughts are left out, and an answer ends before the first stop text. Here rows are batched by length, and generation
stops for each row that has ended.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ft_assets.workers.evals.generation import batches, end_ids, generate
from ft_assets.workers.evals.model import LoadedModel
from ft_resources.errors import BadRecipe


def continue_texts(
    loaded: LoadedModel,
    texts: Sequence[str],
    encode: Callable[[str], list[int]],
    *,
    until: Sequence[str],
    max_new_tokens: int,
    report: Callable[[int, int], None],
    ends: Sequence[int] = (),
) -> list[str]:
    """The continuation of each text, without the stop text.

    Args:
        encode: token ids of a text.
        ends: tokens that end an answer, beside those of the model's settings.
        report: called with (texts continued, texts in all).

    Raises BadRecipe if ``max_new_tokens`` leaves no room for a question in the model's context.
    """
    room = loaded.context_length - max_new_tokens
    if room < 1:
        raise BadRecipe(
            f"answers of {max_new_tokens} tokens do not fit into the base's context of {loaded.context_length}",
            where="the suite's answer length",
            remedy="Lower max_gen_toks (max_new_tokens) in the task file, or use a base with a longer context.",
        )
    prompts = [encode(text)[-room:] for text in texts]
    answers: dict[int, str] = {}
    ending = end_ids(loaded.model, loaded.tokenizer.eos_token_id, *ends)
    for places in batches([len(ids) + max_new_tokens for ids in prompts]):
        stop = Stop(loaded.tokenizer, until)
        new = generate(loaded, [prompts[place] for place in places], max_new_tokens, ending, stop)
        for place, ids in zip(places, new, strict=True):
            text = loaded.tokenizer.decode(_behind_marks(loaded, ids), skip_special_tokens=True)
            if loaded.think_end:
                text = text.split(loaded.think_end)[-1].lstrip()
            answers[place] = cut(text, until)
        report(len(answers), len(texts))
    return [answers[place] for place in range(len(texts))]


def _behind_marks(loaded: LoadedModel, ids: list[int]) -> list[int]:
    """``ids`` behind the last end of thoughts, where control tokens are a part of it: decoders leave those out, and
    lm-eval looks for a number too."""
    mark = loaded.tokenizer.encode(loaded.think_end, add_special_tokens=False) if loaded.think_end else []
    if set(mark).isdisjoint(loaded.tokenizer.all_special_ids):
        return ids
    ends = range(len(ids), len(mark) - 1, -1)
    return next((ids[end:] for end in ends if ids[end - len(mark) : end] == mark), ids)


class Stop:
    """Detects the rows that contain a stop text."""

    def __init__(self, tokenizer: Any, until: Sequence[str]) -> None:
        self._tokenizer, self.texts = tokenizer, tuple(until)
        # Every token has at least one byte, except those that a decoder strips at the start.
        self._tail = 2 + max((len(text.encode()) for text in until), default=0)

    def __call__(self, rows: list[list[int]]) -> list[bool]:
        """For each row's new tokens, whether they contain a stop text. Reads only their ends, as it runs at every
        token."""
        if not self.texts:
            return [False] * len(rows)
        tails = self._tokenizer.batch_decode([row[-self._tail :] for row in rows], skip_special_tokens=True)
        return [
            any(text in tail for text in self.texts)
            and any(text in self._tokenizer.decode(row, skip_special_tokens=True) for text in self.texts)
            for row, tail in zip(rows, tails, strict=True)
        ]


def cut(text: str, until: Sequence[str]) -> str:
    """``text`` up to the first stop text."""
    return text[: min((place for each in until if (place := text.find(each)) >= 0), default=len(text))]
