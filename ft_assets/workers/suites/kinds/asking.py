"""What a kind of suite needs to prompt a model; ``workers/evals/asking.py`` implements it."""

from collections.abc import Callable, Sequence
from typing import Protocol


class Asking(Protocol):
    """A model that can be prompted, for one suite."""

    @property
    def where(self) -> str:
        """Names the suite in messages."""

    @property
    def report(self) -> Callable[[int, int], None]:
        """Called with (answers done, answers in all)."""

    def answer_prompts(
        self, prompts: Sequence[str], *, system_prompt: str | None, max_new_tokens: int
    ) -> dict[int, str]:
        """Greedy answers through the chat template, trimmed, by the prompts' places.

        A prompt that leaves no room for the whole answer gets none. Raises BadRecipe if no prompt fits into the model's
        context, BadData if the template rejects one.
        """

    def continue_texts(
        self, texts: Sequence[str], *, until: Sequence[str], max_new_tokens: int, report: Callable[[int, int], None]
    ) -> list[str]:
        """The model's greedy continuation of each text, without the text of ``until`` that ended it.

        Raises BadRecipe if ``max_new_tokens`` leave no room for a question in the model's context.
        """
