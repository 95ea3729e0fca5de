"""The next token of each row of a batch, and its log-probability."""

# ruff: noqa: TID253 -- imported by the engine only, which needs torch anyway.

from collections.abc import Iterable

import torch

from ft_resources.serving.server import Sampling, Token


def generator(sampling: Sampling) -> torch.Generator | None:
    """The generator of a request's draws: its own, so that they do not depend on the rest of the batch."""
    if sampling.temperature == 0:
        return None
    draws = torch.Generator()
    if sampling.seed is None:
        draws.seed()
    else:
        draws.manual_seed(sampling.seed)
    return draws


def choose(logits: torch.Tensor, rows: Iterable[tuple[Sampling, torch.Generator | None]]) -> list[Token]:
    """One token for each row of ``logits`` [rows, vocabulary]."""
    likeliest = logits.argmax(-1).tolist()
    tokens = []
    for row, (sampling, draws) in enumerate(rows):
        chosen = likeliest[row] if draws is None else _draw(logits[row], sampling, draws)
        if sampling.logprobs is None:
            tokens.append(Token(id=chosen))
        else:
            tokens += with_logprobs(logits[row : row + 1], [chosen], sampling.logprobs)
    return tokens


def with_logprobs(logits: torch.Tensor, ids: list[int], top: int) -> list[Token]:
    """The tokens ``ids`` at the places that ``logits`` [ids, vocabulary] predict, with the ``top`` likeliest there."""
    logprobs = logits.float().log_softmax(-1)
    own = logprobs.gather(1, torch.tensor(ids, device=logits.device)[:, None])[:, 0].tolist()
    values, indices = (found.tolist() for found in logprobs.topk(min(top, logits.shape[1])))
    return [
        Token(id=ids[row], logprob=own[row], top=dict(zip(indices[row], values[row], strict=True)))
        for row in range(len(ids))
    ]


def _draw(logits: torch.Tensor, sampling: Sampling, draws: torch.Generator) -> int:
    """A token drawn from the smallest set of likeliest tokens with a probability of at least ``top_p``."""
    wide = logits.double().cpu()
    # The largest is subtracted first, as a tiny temperature would otherwise make them infinite.
    scaled = (wide - wide.max()) / sampling.temperature
    probabilities, order = scaled.softmax(-1).sort(descending=True, stable=True)
    before = probabilities.cumsum(0) - probabilities
    kept = torch.where(before < sampling.top_p, probabilities, 0.0)
    place = torch.multinomial(kept, 1, generator=draws)
    return int(order[place])
