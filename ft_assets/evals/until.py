"""What a model writes after a text, greedily, until one of some texts ends it: lm-eval's ``generate_until``.

As in lm-eval (``HFLM.generate_until``) a text too long for the context loses its beginning, and an answer ends before
the first of the texts that end it. Here rows are batched by length, and a row that has ended is written on no longer.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ft_assets.evals.generation import batches, generate
from ft_assets.evals.model import LoadedModel
from ft_resources.errors import BadRecipe


def continue_texts(
    loaded: LoadedModel,
    texts: Sequence[str],
    encode: Callable[[str], list[int]],
    *,
    until: Sequence[str],
    max_new_tokens: int,
    report: Callable[[int, int], None],
) -> list[str]:
    """The continuation of each text without what ended it.

    Args:
        encode: token ids of a text.
        report: called with (texts continued, texts in all).

    Raises BadRecipe where ``max_new_tokens`` leave no room for a question in the model's context.
    """
    room = loaded.context_length - max_new_tokens
    if room < 1:
        raise BadRecipe(
            f"answers of {max_new_tokens} tokens do not fit into the base's context of {loaded.context_length}",
            where="the suite's longest answer",
            remedy="Lower max_gen_toks (max_new_tokens) in the task file, or use a base with a longer context.",
        )
    prompts = [encode(text)[-room:] for text in texts]
    answers: dict[int, str] = {}
    ends = end_tokens(loaded)
    for places in batches([len(ids) + max_new_tokens for ids in prompts]):
        stop = Stop(loaded.tokenizer, until)
        new = generate(loaded, [prompts[place] for place in places], max_new_tokens, ends, stop)
        for place, ids in zip(places, new, strict=True):
            answers[place] = cut(loaded.tokenizer.decode(ids, skip_special_tokens=True), until)
        report(len(answers), len(texts))
    return [answers[place] for place in range(len(texts))]


def continue_requests(
    loaded: LoadedModel,
    requests: Iterable[tuple[str, dict[str, Any]]],
    encode: Callable[[str], list[int]],
    report: Callable[[int, int], None],
) -> list[str]:
    """The same for lm-eval's requests: pairs of a text and ``generation_kwargs``."""
    groups: dict[tuple[tuple[str, ...], int], list[int]] = defaultdict(list)
    texts = []
    for place, (text, settings) in enumerate(requests):
        texts.append(text)
        groups[tuple(settings["until"]), int(settings["max_gen_toks"])].append(place)
    answers: dict[int, str] = {}
    for (until, longest), places in groups.items():
        done = len(answers)
        found = continue_texts(
            loaded,
            [texts[place] for place in places],
            encode,
            until=until,
            max_new_tokens=longest,
            report=lambda count, _, done=done: report(done + count, len(texts)),  # type: ignore[misc]
        )
        answers.update(zip(places, found, strict=True))
    return [answers[place] for place in range(len(texts))]


class Stop:
    """Says which rows hold one of the texts that end an answer."""

    def __init__(self, tokenizer: Any, until: Sequence[str]) -> None:
        self._tokenizer, self._until = tokenizer, until
        self.texts = tuple(until)
        # A token is at least one byte, but for those that a decoder takes away at the start.
        self._tail = 2 + max((len(text.encode()) for text in until), default=0)

    def __call__(self, rows: list[list[int]]) -> list[bool]:
        """Of each row's new tokens, whether they hold such a text. Only the ends are read: called at every token."""
        if not self._until:
            return [False] * len(rows)
        tails = self._tokenizer.batch_decode([row[-self._tail :] for row in rows], skip_special_tokens=True)
        return [
            any(text in tail for text in self._until)
            and any(text in self._tokenizer.decode(row, skip_special_tokens=True) for text in self._until)
            for row, tail in zip(rows, tails, strict=True)
        ]


def cut(text: str, until: Sequence[str]) -> str:
    """``text`` up to the first of the texts that end it."""
    return text[: min((place for each in until if (place := text.find(each)) >= 0), default=len(text))]


def end_tokens(loaded: LoadedModel) -> list[int]:
    """Ids that end a plain text: those of the model's generation settings, and the tokenizer's."""
    named = getattr(loaded.model.generation_config, "eos_token_id", None)
    ids = set(named if isinstance(named, list) else [] if named is None else [named])
    if loaded.tokenizer.eos_token_id is not None:
        ids.add(loaded.tokenizer.eos_token_id)
    return sorted(ids)
