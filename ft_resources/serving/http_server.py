"""A model server over HTTP, in the dialect that vLLM and the embedded server share."""

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from ft_resources.serving.errors import BadAdapter, BadRequest
from ft_resources.serving.server import Piece, Sampling, Token
from ft_resources.serving.wire import (
    COMPLETIONS,
    CUT_OFF,
    END,
    LOAD,
    MODELS,
    UNLOAD,
    VERSION,
    Lines,
    asked_of,
    piece_in,
    piece_of,
    readable,
    require_ok,
    scored_of,
    unavailable,
)


class HttpServer:
    """The server at ``url`` (``http://127.0.0.1:8000``).

    Args:
        url: its address, without a path.
        key: the key that clients have to send.
        answer_s: most seconds until the next bytes of an answer. Without streaming that is all of it.
        connect_s: most seconds until there is a connection.
    """

    def __init__(self, url: str, key: str, *, answer_s: float = 300.0, connect_s: float = 5.0) -> None:
        self.url = url
        self._client = httpx.Client(
            base_url=url,
            headers={"authorization": f"Bearer {key}"},
            timeout=httpx.Timeout(answer_s, connect=connect_s),
            # As many connections as there are requests: the server says how many may wait.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=32),
            trust_env=False,
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def healthy(self) -> bool:
        """Whether the server answers requests."""
        try:
            return self._client.get("/health").status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    def version(self) -> str:
        """The engine's version as vLLM says it; empty for a server that does not say it. Raises ServerUnavailable."""
        with readable(self.url):
            answer = self._client.get(VERSION)
            if answer.status_code == httpx.codes.NOT_FOUND:
                return ""
        require_ok(answer, self.url)
        with readable(self.url):
            return str(answer.json()["version"])

    def load(self, name: str, folder: Path) -> None:
        """As ``Server.load``. vLLM refuses a name that it has, whatever its bytes; that is taken for loaded."""
        try:
            self._post(LOAD, {"lora_name": name, "lora_path": str(folder)})
        except BadRequest as error:
            if "already been loaded" in error.what:
                return
            raise BadAdapter(error.what, where=str(folder), remedy=error.remedy) from error

    def unload(self, name: str) -> None:
        """As ``Server.unload``."""
        self._post(UNLOAD, {"lora_name": name})

    def models(self) -> list[str]:
        """As ``Server.models``."""
        with readable(self.url):
            answer = self._client.get(MODELS)
        require_ok(answer, self.url)
        with readable(self.url):
            return [str(each["id"]) for each in answer.json()["data"]]

    def complete(self, model: str, prompt: Sequence[int], sampling: Sampling) -> Piece:
        """As ``Server.complete``."""
        answer = self._post(COMPLETIONS, asked_of(model, prompt, sampling))
        with readable(self.url):
            return piece_of(answer.json()["choices"][0])

    def stream(self, model: str, prompt: Sequence[int], sampling: Sampling) -> Generator[Piece]:
        """As ``Server.stream``. Raises ServerUnavailable if the server ends before the answer does."""
        body = {**asked_of(model, prompt, sampling), "stream": True}
        with readable(self.url), self._client.stream("POST", COMPLETIONS, json=body) as answer:
            if answer.is_error:
                answer.read()
            require_ok(answer, self.url)
            lines = Lines()
            for line in (line for data in answer.iter_bytes() for line in lines.of(data)):
                if line == END:
                    return
                if (piece := piece_in(line, self.url)) is not None:
                    yield piece
        raise unavailable(CUT_OFF, self.url)

    def score(self, model: str, prompt: Sequence[int], continuation: Sequence[int], top: int = 0) -> list[Token]:
        """As ``Server.score``, by one pass over all of it."""
        if not prompt:
            raise BadRequest("nothing predicts a first token", where="prompt", remedy="Score after one token or more.")
        ids = [*prompt, *continuation]
        body = {**asked_of(model, ids, Sampling(max_tokens=1)), "prompt_logprobs": top}
        answer = self._post(COMPLETIONS, body)
        with readable(self.url):
            found = answer.json()["choices"][0]["prompt_logprobs"][len(prompt) :]
            return [scored_of(number, place, top) for number, place in zip(continuation, found, strict=True)]

    def _post(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        with readable(self.url):
            answer = self._client.post(path, json=body)
        require_ok(answer, self.url)
        return answer
