"""The reference: the answers of the evaluation's own model code, with each token's log-probabilities."""

# ruff: noqa: TID253 -- imported by the check only, which needs torch anyway.

from collections.abc import Sequence

import numpy as np
import torch
from transformers import DynamicCache

from ft_assets.workers.evals.generation import end_ids, generate
from ft_assets.workers.evals.model import LoadedModel, last_logits
from ft_assets.workers.serving.parity.comparison import LIKELIEST, Logprobs
from ft_assets.workers.serving.sampling import with_logprobs
from ft_resources.serving.server import Token


class Reference:
    """A model with its adapter, as it was evaluated; ``ends`` are ids that end an answer besides the model's own."""

    def __init__(self, loaded: LoadedModel, ends: Sequence[int]) -> None:
        self._loaded = loaded
        self.ends = end_ids(loaded.model, *ends)

    @property
    def dtype(self) -> str:
        """The dtype of computation."""
        return str(self._loaded.model.dtype).removeprefix("torch.")

    def answers(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> list[list[int]]:
        """Greedy answers of less than ``max_new_tokens`` tokens, without their end tokens."""
        return generate(self._loaded, [list(prompt) for prompt in prompts], max_new_tokens - 1, self.ends)

    @torch.inference_mode()
    def logprobs(self, prompt: Sequence[int], answer: Sequence[int]) -> Logprobs:
        """Log-probabilities [answer + 1, vocabulary] at each place of the answer and the one after it."""
        ids = torch.tensor([[*prompt, *answer]], device=self._loaded.model.device)
        kept = last_logits(self._loaded.model, len(answer) + 1)
        logits = self._loaded.model(input_ids=ids, use_cache=False, **kept).logits[0, -len(answer) - 1 :]
        found: Logprobs = logits.float().log_softmax(-1).cpu().numpy().astype(np.float32, copy=False)
        return found

    @torch.inference_mode()
    def token_by_token(self, prompt: Sequence[int], answer: Sequence[int]) -> list[Token]:
        """The likeliest token at each place of ``answer``, computed with cached keys and values, as in servers."""
        model = self._loaded.model
        cache = DynamicCache(config=model.config.get_text_config())
        tokens: list[Token] = []
        unread = list(prompt)
        for token in answer:
            ids = torch.tensor([unread], device=model.device)
            logits = model(input_ids=ids, past_key_values=cache, use_cache=True).logits[0, -1:]
            tokens += with_logprobs(logits, [int(logits.argmax())], LIKELIEST)
            unread = [token]
        return tokens
