"""A judge that the worker loads from the store like any base: safetensors, no code, greedy."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ft_assets.workers.evals.chat_prompts import ChatPrompts, question
from ft_assets.workers.evals.generation import write_answers
from ft_assets.workers.evals.model import load_model, seeded
from ft_assets.workers.evals.preferences.judge import CUT_SHORT, TOO_LONG, Judgement, Keep
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadBase


class LocalJudge:
    """Asks the model in the folder that ``fetch`` returns, with its own chat template.

    The model is fetched and loaded by ``ask``, which raises BadBase for one that cannot judge.
    """

    def __init__(self, fetch: Callable[[], Path], *, max_new_tokens: int, seed: int) -> None:
        self._fetch, self._max_new_tokens, self._seed = fetch, max_new_tokens, seed

    def ask(self, messages: Sequence[str], keep: Keep) -> None:
        if not messages:
            return
        folder = self._fetch()
        loaded = load_model(folder)
        chat = ChatPrompts(folder, ChatTokenizer.load(folder), None)
        room = loaded.context_length - self._max_new_tokens
        if room <= 0:
            raise BadBase(
                f"the judge's context ({loaded.context_length} tokens) has no room for a prompt: "
                f"max_new_tokens is {self._max_new_tokens}",
                where="evaluation.judge",
                remedy="Choose another judge or a smaller max_new_tokens.",
            )
        asked: list[tuple[int, list[int]]] = []
        for place, message in enumerate(messages):
            ids = chat.prompt(question(message), "the judge's prompt")
            if len(ids) > room:
                keep(place, Judgement(problem=TOO_LONG))
            else:
                asked.append((place, ids))
        prompts = [ids for _, ids in asked]
        with seeded(self._seed, loaded.model):
            for number, output, cut in write_answers(loaded, chat, prompts, self._max_new_tokens):
                short = cut or output.unfinished
                keep(asked[number][0], Judgement(problem=CUT_SHORT) if short else Judgement(text=output.answer))
