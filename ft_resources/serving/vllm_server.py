"""vLLM over HTTP, asked for nothing that ends its engine."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ft_resources.errors import NotFound
from ft_resources.serving.errors import BadAdapter, BadRequest
from ft_resources.serving.http_server import HttpServer
from ft_resources.serving.server import Sampling, Token
from ft_resources.serving.wire import COMPLETIONS, asked_of, piece_of, readable

# Scores of places share batches; the server keeps what they have in common.
_AT_ONCE = 8
_ONE_TOKEN = Sampling(max_tokens=1)


class VllmServer(HttpServer):
    """A server of vLLM.

    Never sent: ``prompt_logprobs`` (for a LoRA in a batch with others they end the engine on a CPU), ``echo`` with
    log-probabilities, which are the same, and ``load_inplace``, which reads a folder again at every step.
    """

    def fetch(self, name: str) -> None:
        """Return once it serves ``name``, which it fetches from the store itself by our plug-in.

        Raises NotFound where it does not know the name, and BadAdapter for an adapter that it cannot load.
        """
        try:
            # Whoever asks for a name has it fetched, and one token shows that it answers.
            self.complete(name, [0], _ONE_TOKEN)
        except BadRequest as error:
            raise BadAdapter(error.what, where=name, remedy="Look at the server's log.") from error
        except NotFound as error:
            raise NotFound(
                error.what,
                where=name,
                remedy="Its log says why: it has another base or another store, or no plug-in.",
            ) from error

    def score(self, model: str, prompt: Sequence[int], continuation: Sequence[int], top: int = 0) -> list[Token]:
        """As ``Server.score``, by one request for each token, which the server is held to: its log-probability is
        that of the model all the same."""
        if not prompt:
            raise BadRequest("nothing predicts a first token", where="prompt", remedy="Score after one token or more.")
        ids = [*prompt, *continuation]

        def place(number: int) -> Token:
            asked = asked_of(model, ids[:number], replace(_ONE_TOKEN, logprobs=top))
            answer = self._post(COMPLETIONS, {**asked, "allowed_token_ids": [ids[number]]})
            with readable(self.url):
                (token,) = piece_of(answer.json()["choices"][0]).tokens
            likeliest = sorted(token.top, key=lambda each: (-token.top[each], each))[:top]
            return replace(token, top={each: token.top[each] for each in likeliest})

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(place, range(len(prompt), len(ids))))
