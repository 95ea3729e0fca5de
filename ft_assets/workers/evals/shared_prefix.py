"""lm-eval's Hugging Face model, computing shared prefixes of requests only once.

Stock lm-eval runs few-shot examples, question and choice together for each choice. Here the requests of a task are one
tree (``prefix_tree.py``): its few-shot examples run once, a question once for all its choices. Requests are truncated
to the model's context as in stock lm-eval. Models that cannot compute trees, and requests too long for one, are left to
stock.
"""
# Only the worker imports this, inside functions; without its base class there is nothing to define here.
# ruff: noqa: TID253

import math
import sys
from collections.abc import Callable
from typing import Any

from lm_eval.models.huggingface import HFLM

from ft_assets.workers.evals.chat_prompts import ChatPrompts
from ft_assets.workers.evals.model import LoadedModel, NotFinite
from ft_assets.workers.evals.prefix_tree import Path
from ft_assets.workers.evals.stop_sequences import continue_texts
from ft_assets.workers.evals.tree_scoring import Answer, agrees, longest_tree, score_paths
from ft_assets.workers.packs.isolation.forward import runs_apart
from ft_resources.errors import BadData, BadRecipe

# Rows of a batch when stock code computes.
STOCK_ROWS = 16

Request = tuple[tuple[str, str], list[int], list[int]]


class SharedPrefixLM(HFLM):
    """``HFLM`` over a live model; ``report(done, total)`` gets numbers of items: an item with four choices is four
    requests, so finished items are estimated from the share of finished requests. ``chat`` is the template for
    lm-eval's ``apply_chat_template``."""

    def __init__(
        self, loaded: LoadedModel, report: Callable[[int, int], None], chat: ChatPrompts | None = None
    ) -> None:
        super().__init__(pretrained=loaded.model, tokenizer=loaded.tokenizer, backend="causal", batch_size=STOCK_ROWS)
        self._loaded, self._report, self._chat = loaded, report, chat
        self._encoded: dict[str, list[int]] = {}
        self._items = 0
        shares = not runs_apart(loaded.model) and agrees(loaded.model)
        self._longest = (longest_tree(loaded.model) or self.max_length) if shares else 0

    def tok_encode(
        self,
        string: str,
        add_special_tokens: bool | None = None,
        left_truncate_len: int | None = None,
        **kwargs: Any,
    ) -> list[int]:
        """Like the stock method, but reuses what ``loglikelihood`` encoded in one batch."""
        if add_special_tokens is None and not left_truncate_len and string in self._encoded:
            return list(self._encoded[string])
        return super().tok_encode(string, add_special_tokens, left_truncate_len, **kwargs)

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = True) -> list[Answer]:
        """Like the stock method, but encodes the texts in one batch first instead of one by one."""
        self._items = _items_of(requests)
        pairs = [request.args for request in requests]
        bos = self.tokenizer.decode(self.prefix_token_id)
        # Stock moves spaces from the end of the context to the continuation, and adds no second BOS.
        texts = {text for context, choice in pairs if context for text in (context + choice, context.rstrip())}
        plain = sorted(text for text in texts if not text.startswith(bos))
        if plain:
            self._encoded = dict(zip(plain, self.tokenizer(plain)["input_ids"], strict=True))
        answers: list[Answer] = super().loglikelihood(requests, disable_tqdm=True)
        self._encoded = {}
        return answers

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = True) -> list[float]:
        """Like the stock method, with all windows of all texts at once: they are batched by ``tree_scoring``."""
        self._items = _items_of(requests)
        self.batch_size_per_gpu = sys.maxsize
        try:
            found: list[float] = super().loglikelihood_rolling(requests, disable_tqdm=True)
        finally:
            self.batch_size_per_gpu = STOCK_ROWS
        return found

    def generate_until(self, requests: list[Any], disable_tqdm: bool = True) -> list[str]:
        """Like the stock method, in batches that end as soon as all their rows have."""
        # A task has one ``generation_kwargs``.
        settings = requests[0].args[1]
        return continue_texts(
            self._loaded,
            [request.args[0] for request in requests],
            self.tok_encode,
            until=settings["until"],
            max_new_tokens=int(settings["max_gen_toks"]),
            report=self._report,
            ends=self._chat.end_ids if self._chat else (),
        )

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Like the stock method, by the template in use and in its sandbox.

        Raises BadData for questions that the template refuses also without a system turn.
        """
        assert self._chat is not None
        render = self._chat.template.render
        try:
            return render(chat_history, where="suite", add_generation_prompt=add_generation_prompt)
        except BadData:
            asked = [message for message in chat_history if message["role"] != "system"]
            return render(asked, where="suite", add_generation_prompt=add_generation_prompt)

    def _loglikelihood_tokens(
        self, requests: list[Request], disable_tqdm: bool = True, override_bs: int | None = None
    ) -> list[Answer]:
        """(log-probability of the continuation, whether greedy decoding would write it) for each request.

        Raises BadRecipe for a continuation that is longer than the model's context, NotFinite for non-finite
        likelihoods.
        """
        paths = [path_of(context, continuation, self.max_length) for _, context, continuation in requests]
        shared = [place for place, path in enumerate(paths) if len(path.tokens) <= self._longest]
        rest = [place for place, path in enumerate(paths) if len(path.tokens) > self._longest]
        answers: dict[int, Answer] = {}
        for number, answer in score_paths(self.model, [paths[place] for place in shared]):
            answers[shared[number]] = answer
            self._report(len(answers) * self._items // len(requests), self._items)
        if rest:
            stock = super()._loglikelihood_tokens(
                [requests[place] for place in rest], disable_tqdm=True, override_bs=STOCK_ROWS
            )
            answers.update(zip(rest, stock, strict=True))
        if not all(math.isfinite(likelihood) for likelihood, _ in answers.values()):
            # lm-eval would take the first choice as the likeliest, and the score would be chance.
            raise NotFinite("the model's likelihoods are not finite numbers")
        self._report(self._items, self._items)
        return [answers[place] for place in range(len(requests))]


def _items_of(requests: list[Any]) -> int:
    return len({request.doc_id for request in requests})


def path_of(context: list[int], continuation: list[int], max_length: int) -> Path:
    """The model's input for a request, truncated on the left as by stock lm-eval, and the tokens to predict."""
    if not 0 < len(continuation) <= max_length:
        raise BadRecipe(
            f"a choice has {len(continuation)} tokens, and the model's context {max_length}",
            where="suite",
            remedy="Shorten the choices, or use a base with a longer context.",
        )
    return Path(tokens=(context + continuation)[-(max_length + 1) :][:-1], targets=continuation)
