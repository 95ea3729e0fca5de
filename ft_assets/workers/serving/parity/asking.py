"""A server's likeliest tokens at the places of a given answer."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ft_assets.workers.serving.parity.comparison import LIKELIEST
from ft_resources.errors import UserError
from ft_resources.serving.errors import ServerUnavailable
from ft_resources.serving.server import Sampling, Server, Token

# So that rows share batches, as they do in production.
AT_ONCE = 4

Forced = tuple[Sequence[int], Sequence[int]]
"""Token ids of a prompt, and of the answer that the server is forced to follow."""


class OtherPrompt(UserError):
    """The server read other token ids than it was sent."""


def ask(server: Server, model: str, asked: Sequence[Forced], ends: Sequence[int]) -> list[list[Token]]:
    """For each prompt and answer, ``forced``. Raises what the server raises, and OtherPrompt."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda each: forced(server, model, each[0], each[1], ends), asked))


def forced(
    server: Server, model: str, prompt: Sequence[int], answer: Sequence[int], ends: Sequence[int]
) -> list[Token]:
    """The likeliest token at each place of ``answer``, after the prompt and the answer's tokens before it.

    The server generates greedily, as for its users. After each token that differs, a new request continues with the
    answer's own: so there is one request, and one more for each difference. Prompt log-probabilities would always take
    one request, but no user asks for them, and they crash vLLM if LoRA adapters share a batch.
    """
    places: list[Token] = []
    while len(places) < len(answer):
        done = len(places)
        sent = [*prompt, *answer[:done]]
        piece = server.complete(
            model,
            sent,
            Sampling(max_tokens=len(answer) - done, logprobs=LIKELIEST, stop_token_ids=tuple(ends)),
        )
        # Compared here, as half precision may hide the effect of a second BOS token.
        if piece.prompt and list(piece.prompt) != sent:
            raise OtherPrompt(
                f"the server was sent {len(sent)} token ids, and read {len(piece.prompt)}, which are not the same",
                where=model,
                remedy="Look at what it adds to prompts.",
            )
        for place, token in zip(range(done, len(answer)), piece.tokens, strict=False):
            places.append(token)
            if token.id != answer[place]:
                break
        if len(places) == done:
            raise ServerUnavailable(
                "the server answers without a token", where=model, remedy="Look at the server's log, and try again."
            )
    return places
