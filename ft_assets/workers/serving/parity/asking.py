"""A server's tokens in the places of a given answer."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ft_assets.workers.serving.parity.comparison import LIKELIEST
from ft_resources.serving.errors import ServerUnavailable
from ft_resources.serving.server import Sampling, Server, Token

# So that rows share batches, as they do in production.
_AT_ONCE = 4

Forced = tuple[Sequence[int], Sequence[int]]
"""Token ids of a prompt, and of the answer that the server is held to."""


def ask(server: Server, model: str, asked: Sequence[Forced], ends: Sequence[int]) -> list[list[Token]]:
    """For each prompt and answer, ``forced``. Raises what the server raises."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda each: forced(server, model, each[0], each[1], ends), asked))


def forced(
    server: Server, model: str, prompt: Sequence[int], answer: Sequence[int], ends: Sequence[int]
) -> list[Token]:
    """The likeliest token in each place of ``answer``, after the prompt and the answer's tokens before it.

    The server writes greedily, as it does for its users, and is put back on the answer's track after each other token:
    one request where it writes the answer itself, one more for each flip. Scores of a prompt would take one request
    always, but no user asks for them, and vLLM ends on them where LoRA shares a batch.
    """
    places: list[Token] = []
    while len(places) < len(answer):
        done = len(places)
        piece = server.complete(
            model,
            [*prompt, *answer[:done]],
            Sampling(max_tokens=len(answer) - done, logprobs=LIKELIEST, stop_token_ids=tuple(ends)),
        )
        for place, token in zip(range(done, len(answer)), piece.tokens, strict=False):
            places.append(token)
            if token.id != answer[place]:
                break
        if len(places) == done:
            raise ServerUnavailable(
                "the server answers with no token", where=model, remedy="Look at the server's log, and try again."
            )
    return places
