"""A server's tokens in the places of a given answer."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ft_assets.workers.serving.parity.comparison import LIKELIEST
from ft_resources.errors import UserError
from ft_resources.serving.errors import ServerUnavailable
from ft_resources.serving.server import Sampling, Server, Token

# So that rows share batches, as they do in production.
AT_ONCE = 4

Forced = tuple[Sequence[int], Sequence[int]]
"""Token ids of a prompt, and of the answer that the server is held to."""


class OtherPrompt(UserError):
    """The server read other token ids than it was sent."""


def ask(server: Server, model: str, asked: Sequence[Forced], ends: Sequence[int]) -> list[list[Token]]:
    """For each prompt and answer, ``forced``. Raises what the server raises, and OtherPrompt."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
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
        sent = [*prompt, *answer[:done]]
        piece = server.complete(
            model,
            sent,
            Sampling(max_tokens=len(answer) - done, logprobs=LIKELIEST, stop_token_ids=tuple(ends)),
        )
        # Half precision rounds away what a second beginning token changes.
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
                "the server answers with no token", where=model, remedy="Look at the server's log, and try again."
            )
    return places
