"""A judge that the worker loads from the store, like any base: safetensors, no code, greedy."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ft_assets.evals.generation import batches, end_ids, generate
from ft_assets.evals.holdout_rows import ChatRows
from ft_assets.evals.model import LoadedModel, load_model, seeded
from ft_assets.evals.preferences.judge import CUT_SHORT, TOO_LONG, Judgement, Keep
from ft_assets.packs.encoding.tokenizer import ChatTokenizer
from ft_resources.errors import BadBase


class LocalJudge:
    """Asks the model in the folder that ``fetch`` gives, with its own chat template.

    What a message spells is never a control token.

    It is fetched and loaded when it is asked. Raises BadBase for a model that cannot judge.
    """

    def __init__(self, fetch: Callable[[], Path], *, max_new_tokens: int, seed: int) -> None:
        self._fetch, self._max_new_tokens, self._seed = fetch, max_new_tokens, seed

    def ask(self, messages: Sequence[str], keep: Keep) -> None:
        if not messages:
            return
        folder = self._fetch()
        loaded, tokenizer = load_model(folder), ChatTokenizer.load(folder)
        rows = ChatRows(folder, tokenizer, None)
        room = loaded.context_length - self._max_new_tokens
        if room <= 0:
            raise BadBase(
                f"the judge's context of {loaded.context_length} tokens has no room beside max_new_tokens "
                f"({self._max_new_tokens})",
                where="evaluation.judge",
                remedy="Choose another judge or a smaller max_new_tokens.",
            )
        asked: list[tuple[int, list[int]]] = []
        for place, message in enumerate(messages):
            ids = rows.prompt([{"role": "user", "content": message}], "what the judge is asked")
            if len(ids) > room:
                keep(place, Judgement(problem=TOO_LONG))
            else:
                asked.append((place, ids))
        self._generate(loaded, tokenizer, rows, asked, keep)

    def _generate(
        self,
        loaded: LoadedModel,
        tokenizer: ChatTokenizer,
        rows: ChatRows,
        asked: Sequence[tuple[int, list[int]]],
        keep: Keep,
    ) -> None:
        ends = end_ids(loaded.model, tokenizer, rows.ends)
        with seeded(self._seed, loaded.model):
            for numbers in batches([len(ids) + self._max_new_tokens for _, ids in asked]):
                said = generate(loaded, [asked[number][1] for number in numbers], self._max_new_tokens, ends)
                for number, ids in zip(numbers, said, strict=True):
                    text = tokenizer.tokenizer.decode(ids, skip_special_tokens=True).strip()
                    cut = len(ids) >= self._max_new_tokens
                    keep(asked[number][0], Judgement(problem=CUT_SHORT) if cut else Judgement(text=text))
