"""A result and its base in this process, for one person who talks to them: every architecture and every method, one
answer at a time, computed as the evaluation computes them."""

import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ft_assets.workers.evals.generation import end_ids, write_out
from ft_assets.workers.evals.model import LoadedModel, load_model
from ft_assets.workers.libraries import UNUSED, absent, keep_offline
from ft_assets.workers.serving.prompts import Prompts
from ft_assets.workers.tokenizers.growing_text import GrowingText
from ft_resources.serving.errors import PromptTooLong
from ft_resources.serving.server import Reason

Tell = Callable[[str, str], None]
"""Gets the thoughts and the text that are added to an answer."""


class Talk:
    """Answers of the model in the folder ``result``, an adapter or a whole model, and of its ``base``."""

    def __init__(self, base: Path, result: Path, prompts: Prompts) -> None:
        keep_offline()
        self._folder, self._prompts = base, prompts
        self._is_adapter = (result / "adapter_config.json").exists()
        self._result = _loaded(base, result) if self._is_adapter else _loaded(result, base_folder=base)

    def answer(
        self,
        messages: Sequence[dict[str, Any]],
        tell: Tell,
        *,
        tools: Sequence[dict[str, Any]] = (),
        of_base: bool = False,
        most: int = 512,
    ) -> Reason:
        """Tell the likeliest answer to a conversation as it is written, at most ``most`` tokens, and why it ended. What
        ``tell`` raises ends it. Without a chat template the last message is continued.

        Raises as ``Prompts.chat``, and PromptTooLong.
        """
        if of_base and self._is_adapter:
            with self._result.as_base():
                return self._answer(self._result, messages, tell, tools, most)
        return self._answer(self._base if of_base else self._result, messages, tell, tools, most)

    @cached_property
    def _base(self) -> LoadedModel:
        return _loaded(self._folder)

    def _answer(
        self,
        loaded: LoadedModel,
        messages: Sequence[dict[str, Any]],
        tell: Tell,
        tools: Sequence[dict[str, Any]],
        most: int,
    ) -> Reason:
        prompts, context = self._prompts, loaded.context_length
        prompt = prompts.asked(messages, context, tools)
        add = prompts.output(prompt).add if prompts.chats else _Continued(loaded.tokenizer).add
        most = min(most, context - len(prompt))
        if most < 1:
            raise PromptTooLong(len(prompt), 1, context)
        ends = end_ids(loaded.model, loaded.tokenizer.eos_token_id, *prompts.ends(with_tools=bool(tools)))
        written: list[int] = []

        def take(token: int) -> None:
            written.append(token)
            is_end = token in ends
            thoughts, text = add([] if is_end else [token], ends=is_end or len(written) == most)
            if thoughts or text:
                tell(thoughts, text)

        write_out(loaded, prompt, most, ends, take)
        return "stop" if written[-1] in ends else "length"


def _loaded(folder: Path, adapter: Path | None = None, base_folder: Path | None = None) -> LoadedModel:
    # Without what libraries would import for nothing, and complain about on the person's screen.
    with absent(*UNUSED), warnings.catch_warnings(action="ignore"):
        return load_model(folder, adapter, base_folder=base_folder)


class _Continued(GrowingText):
    """A text without a template's marks is all answer."""

    def add(self, ids: Sequence[int], *, ends: bool) -> tuple[str, str]:  # type: ignore[override]
        return "", super().add(ids, ends=ends)
