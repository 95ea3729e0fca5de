"""lm-eval's Hugging Face model, with the context of a multiple-choice item computed once for all its choices.

Stock lm-eval runs context and choice together for each choice. Here a batch of contexts of one length runs once,
its key-value cache is repeated for the choices, and only these run on top: about (choices - 1) x context fewer
tokens an item. As the contexts of a batch have one length, nothing is padded on the left and no mask is needed;
choices are padded on the right, where causal attention does not look. Scores equal stock's up to float rounding.
"""
# Only the worker imports this, inside functions; without its base class there is nothing here to define.
# ruff: noqa: TID253

import inspect
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from lm_eval.models.huggingface import HFLM

from ft_assets.evals.model import LoadedModel
from ft_resources.errors import UserError

MAX_ROWS = 64
# Of context and choice together, over a batch's rows: bounds the memory of the repeated cache.
MAX_TOKENS = 16_384

Request = tuple[tuple[str, str], list[int], list[int]]
Answer = tuple[float, bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """One context and some of its continuations, by their places in the list of requests."""

    context: list[int]
    places: list[int]


class SharedPrefixLM(HFLM):
    """``HFLM`` over a live model; ``report(done, total)`` hears how many continuations are scored."""

    def __init__(self, loaded: LoadedModel, report: Callable[[int, int], None]) -> None:
        super().__init__(pretrained=loaded.model, tokenizer=loaded.tokenizer, backend="causal", batch_size=MAX_ROWS)
        self._report = report
        self._encoded: dict[str, list[int]] = {}
        bare = loaded.model.get_base_model() if hasattr(loaded.model, "get_base_model") else loaded.model
        keeps = "logits_to_keep" in inspect.signature(bare.forward).parameters
        self._only_last = {"logits_to_keep": 1} if keeps else {}

    def tok_encode(
        self,
        string: str,
        add_special_tokens: bool | None = None,
        left_truncate_len: int | None = None,
        **kwargs: Any,
    ) -> list[int]:
        """As the stock method, from what ``loglikelihood`` encoded in one go where it did."""
        if add_special_tokens is None and not left_truncate_len and string in self._encoded:
            return list(self._encoded[string])
        return super().tok_encode(string, add_special_tokens, left_truncate_len, **kwargs)

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = True) -> list[Answer]:
        """As the stock method; the texts it will encode one by one are encoded at once before."""
        pairs = [request.args for request in requests]
        bos = self.tokenizer.decode(self.prefix_token_id)
        # Stock moves blanks from the end of the context to the continuation, and adds no second BOS.
        texts = {text for context, choice in pairs if context for text in (context + choice, context.rstrip())}
        plain = sorted(text for text in texts if not text.startswith(bos))
        if plain:
            self._encoded = dict(zip(plain, self.tokenizer(plain)["input_ids"], strict=True))
        answers: list[Answer] = super().loglikelihood(requests, disable_tqdm=True)
        self._encoded = {}
        return answers

    def generate_until(self, requests: list[Any], disable_tqdm: bool = True) -> list[str]:
        return super().generate_until(requests, disable_tqdm=True)

    def _loglikelihood_tokens(
        self, requests: list[Request], disable_tqdm: bool = True, override_bs: int | None = None
    ) -> list[Answer]:
        """(log-probability of the continuation, whether greedy decoding would write it) for each request."""
        pieces, rest = split_requests(requests, self.max_length)
        answers: dict[int, Answer] = {}
        for batch in batches(pieces, requests):
            answers.update(self._score(batch, requests))
            self._report(len(answers), len(requests))
        if rest:
            stock = super()._loglikelihood_tokens([requests[place] for place in rest], disable_tqdm=True)
            answers.update(zip(rest, stock, strict=True))
        if not all(math.isfinite(likelihood) for likelihood, _ in answers.values()):
            # lm-eval would take the first choice for the likeliest, and chance for a score.
            raise UserError(
                "the model's likelihoods are not finite numbers",
                where="model",
                remedy="Its weights have probably diverged: lower the learning rate.",
            )
        self._report(len(requests), len(requests))
        return [answers[place] for place in range(len(requests))]

    @torch.inference_mode()
    def _score(self, batch: list[Piece], requests: list[Request]) -> Iterator[tuple[int, Answer]]:
        """Places and answers of the batch; its contexts have one length."""
        places = [place for piece in batch for place in piece.places]
        owner = [number for number, piece in enumerate(batch) for _ in piece.places]
        owners = torch.tensor(owner, device=self.device)
        contexts = torch.tensor([piece.context for piece in batch], device=self.device)  # [contexts, length]
        out = self.model(input_ids=contexts, use_cache=True, **self._only_last)
        logits = out.logits[:, -1:].index_select(0, owners)  # [rows, 1, vocabulary]: predicts the first token

        lengths = torch.tensor([len(requests[place][2]) for place in places], device=self.device)
        width = int(lengths.max())
        targets = torch.zeros((len(places), width), dtype=torch.long, device=self.device)
        for row, place in enumerate(places):
            targets[row, : lengths[row]] = torch.tensor(requests[place][2])
        if width > 1:
            cache = out.past_key_values
            cache.batch_select_indices(owners)
            more = self.model(input_ids=targets[:, :-1], past_key_values=cache, use_cache=True).logits
            logits = torch.cat([logits, more], dim=1)  # [rows, width, vocabulary]

        inside = torch.arange(width, device=self.device) < lengths[:, None]
        logits = logits.float()
        chosen = logits.gather(2, targets[..., None]).squeeze(2) - logits.logsumexp(2)
        sums = torch.where(inside, chosen, 0.0).sum(1).tolist()
        greedy = ((logits.argmax(2) == targets) | ~inside).all(1).tolist()
        return zip(places, zip(sums, greedy, strict=True), strict=True)


def split_requests(requests: list[Request], max_length: int) -> tuple[list[Piece], list[int]]:
    """Contexts with their continuations, and the places of requests that stock code has to cut to ``max_length``."""
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    rest: list[int] = []
    for place, (_, context, continuation) in enumerate(requests):
        if len(context) + len(continuation) > max_length:
            rest.append(place)
        else:
            groups[tuple(context)].append(place)
    pieces = []
    for shared, places in groups.items():
        places.sort(key=lambda place: len(requests[place][2]))
        for start in range(0, len(places), MAX_ROWS):
            pieces.append(Piece(context=list(shared), places=places[start : start + MAX_ROWS]))
    return pieces, rest


def batches(pieces: list[Piece], requests: list[Request]) -> Iterator[list[Piece]]:
    """Pieces whose contexts have one length, longest first, within MAX_ROWS rows and MAX_TOKENS tokens.

    A single piece may exceed MAX_TOKENS; it is a batch of its own.
    """

    def longest(piece: Piece) -> int:
        return max(len(requests[place][2]) for place in piece.places)

    batch: list[Piece] = []
    rows = width = 0
    for piece in sorted(pieces, key=lambda piece: (-len(piece.context), longest(piece))):
        length = len(piece.context)
        fits = (
            bool(batch)
            and len(batch[0].context) == length
            and rows + len(piece.places) <= MAX_ROWS
            and (rows + len(piece.places)) * (length + max(width, longest(piece))) <= MAX_TOKENS
        )
        if batch and not fits:
            yield batch
            batch, rows, width = [], 0, 0
        batch.append(piece)
        rows, width = rows + len(piece.places), max(width, longest(piece))
    if batch:
        yield batch
