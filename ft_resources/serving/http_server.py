"""A server of models over HTTP, in the dialect that vLLM and the embedded server share."""

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from ft_resources.errors import NotFound, NotIdentified, first_line
from ft_resources.serving.errors import BadAdapter, BadRequest, NameTaken, ServerBusy, ServerUnavailable
from ft_resources.serving.server import Piece, Sampling, Token

_LOAD, _UNLOAD, _MODELS, _COMPLETIONS = (
    f"/v1/{name}" for name in ("load_lora_adapter", "unload_lora_adapter", "models", "completions")
)
_LABEL = "token_id:"


class HttpServer:
    """The server at ``url`` (``http://127.0.0.1:8000``).

    Args:
        url: its address, without a path.
        key: what it demands of clients.
        answer_s: most seconds until the next bytes of an answer. Without streaming that is all of it.
        connect_s: most seconds until there is a connection.
    """

    def __init__(self, url: str, key: str, *, answer_s: float = 300.0, connect_s: float = 5.0) -> None:
        self._url = url
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

    def load(self, name: str, folder: Path) -> None:
        """As ``Server.load``. vLLM refuses a name that it has, whatever its bytes; that is taken for loaded."""
        try:
            self._post(_LOAD, {"lora_name": name, "lora_path": str(folder)})
        except BadRequest as error:
            if "already been loaded" in error.what:
                return
            raise BadAdapter(error.what, where=str(folder), remedy=error.remedy) from error

    def unload(self, name: str) -> None:
        """As ``Server.unload``."""
        self._post(_UNLOAD, {"lora_name": name})

    def models(self) -> list[str]:
        """As ``Server.models``."""
        with self._errors():
            answer = self._client.get(_MODELS)
        self._require_ok(answer)
        with self._errors():
            return [str(each["id"]) for each in answer.json()["data"]]

    def complete(self, model: str, prompt: Sequence[int], sampling: Sampling) -> Piece:
        """As ``Server.complete``."""
        answer = self._post(_COMPLETIONS, _asked(model, prompt, sampling))
        with self._errors():
            return _piece(answer.json()["choices"][0])

    def stream(self, model: str, prompt: Sequence[int], sampling: Sampling) -> Generator[Piece]:
        """As ``Server.stream``. Raises ServerUnavailable if the server ends before the answer does."""
        body = {**_asked(model, prompt, sampling), "stream": True}
        with self._errors(), self._client.stream("POST", _COMPLETIONS, json=body) as answer:
            if answer.is_error:
                answer.read()
            self._require_ok(answer)
            for line in answer.iter_lines():
                if not line.startswith("data:"):
                    continue
                data = line.removeprefix("data:").strip()
                if data == "[DONE]":
                    return
                part = json.loads(data)
                if "error" in part:
                    raise self._unavailable(str(part["error"].get("message")))
                if part["choices"]:
                    yield _piece(part["choices"][0])
        raise self._unavailable("it ended in the middle of an answer")

    def score(self, model: str, prompt: Sequence[int], continuation: Sequence[int], top: int = 0) -> list[Token]:
        """As ``Server.score``, by one pass over all of it."""
        if not prompt:
            raise BadRequest("nothing predicts a first token", where="prompt", remedy="Score after one token or more.")
        ids = [*prompt, *continuation]
        body = {**_asked(model, ids, Sampling(max_tokens=1)), "prompt_logprobs": top}
        answer = self._post(_COMPLETIONS, body)
        with self._errors():
            found = answer.json()["choices"][0]["prompt_logprobs"][len(prompt) :]
            return [_scored(number, place, top) for number, place in zip(continuation, found, strict=True)]

    def _post(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        with self._errors():
            answer = self._client.post(path, json=body)
        self._require_ok(answer)
        return answer

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Whatever ends a connection or is no answer of this dialect, as ServerUnavailable."""
        try:
            yield
        except httpx.HTTPError as error:
            raise self._unavailable(f"{type(error).__name__}: {first_line(error)}") from error
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise self._unavailable(f"its answer cannot be read: {first_line(error)}") from error

    def _unavailable(self, what: str) -> ServerUnavailable:
        return ServerUnavailable(what, where=self._url, remedy="Look at the server's log, and try again.")

    def _require_ok(self, answer: httpx.Response) -> None:
        if not answer.is_error:
            return
        what, code = _told(answer)
        match answer.status_code:
            case 401 | 403:
                raise NotIdentified(what, where=self._url, remedy="Use the key that the server was started with.")
            case 404:
                raise NotFound(what, where=self._url, remedy="Load the adapter first.")
            case 409:
                raise NameTaken(what, where=self._url, remedy="Give each adapter a name of its own.")
            case 429 | 503 if "retry-after" in answer.headers:
                retry_s = float(answer.headers["retry-after"])
                raise ServerBusy(what, where=self._url, remedy="Try again later.", retry_s=retry_s)
            case status if status < httpx.codes.INTERNAL_SERVER_ERROR:
                raise BadRequest(what, where=self._url, remedy="Mend the request.", code=code)
            case status:
                raise self._unavailable(f"{status}: {what}")


def _asked(model: str, prompt: Sequence[int], sampling: Sampling) -> dict[str, Any]:
    body = {
        "model": model,
        "prompt": list(prompt),
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
        "stop_token_ids": list(sampling.stop_token_ids),
        "logprobs": sampling.logprobs,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
    }
    return {name: value for name, value in body.items() if value is not None}


def _piece(choice: Mapping[str, Any]) -> Piece:
    ids, found = choice["token_ids"], choice.get("logprobs")
    if found is None:
        tokens = [Token(id=number) for number in ids]
    else:
        tokens = [
            Token(id=number, logprob=value, top={_number(label): each for label, each in (top or {}).items()})
            for number, value, top in zip(ids, found["token_logprobs"], found["top_logprobs"], strict=True)
        ]
    return Piece(tokens=tuple(tokens), text=choice["text"], finish_reason=choice["finish_reason"])


def _scored(number: int, place: Mapping[str, Mapping[str, Any]], top: int) -> Token:
    values = {int(label): float(each["logprob"]) for label, each in place.items()}
    likeliest = sorted(values, key=lambda each: (-values[each], each))[:top]
    return Token(id=number, logprob=values[number], top={each: values[each] for each in likeliest})


def _number(label: str) -> int:
    return int(label.removeprefix(_LABEL))


def _told(answer: httpx.Response) -> tuple[str, str]:
    """Message and code of an error, in OpenAI's form or in any other."""
    try:
        found = answer.json()["error"]
        return str(found["message"]), str(found.get("code") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return answer.text.strip()[:300] or answer.reason_phrase, ""
