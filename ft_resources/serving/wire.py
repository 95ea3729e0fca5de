"""The dialect that vLLM and the embedded server share, as a client writes and reads it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from ft_resources.errors import NotFound, NotIdentified, UserError, first_line
from ft_resources.retry_after import retry_after
from ft_resources.serving.errors import BadRequest, NameTaken, ServerBusy, ServerUnavailable
from ft_resources.serving.server import Piece, Sampling, Token

LOAD, UNLOAD, MODELS, COMPLETIONS = (
    f"/v1/{name}" for name in ("load_lora_adapter", "unload_lora_adapter", "models", "completions")
)
VERSION = "/version"
END = "data: [DONE]"
"""The last line of a stream."""
CUT_OFF = "it ended in the middle of an answer"
_LABEL = "token_id:"
_LONGEST_REST_S = 600.0


class Lines:
    """The lines of a stream as its bytes come. "\\n" alone ends one: Python's strings, and so httpx, also take U+2028
    and U+0085 for ends of lines, which may be in the middle of an answer's text."""

    def __init__(self) -> None:
        self._rest = b""

    def of(self, data: bytes) -> list[str]:
        """The lines that end in the next ``data``."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line.decode().removesuffix("\r") for line in lines]


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that says that something is wrong, whichever client read it. Names of ``headers`` have no case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    reason: str

    def error(self, url: str) -> UserError:
        """What its status says; ``url`` is the server's address."""
        what, code = self._told()
        match self.status:
            case 401 | 403:
                return NotIdentified(what, where=url, remedy="Use the key that the server was started with.")
            case 404:
                return NotFound(what, where=url, remedy="Load the adapter first.")
            case 409:
                return NameTaken(what, where=url, remedy="Give each adapter a name of its own.")
            case 429 | 503 if "retry-after" in self.headers:
                retry_s = retry_after(self.headers["retry-after"], _LONGEST_REST_S)
                return ServerBusy(what, where=url, remedy="Try again later.", retry_s=retry_s)
            case status if status < httpx.codes.INTERNAL_SERVER_ERROR:
                return BadRequest(what, where=url, remedy="Mend the request.", code=code)
            case status:
                return unavailable(f"{status}: {what}", url)

    def _told(self) -> tuple[str, str]:
        """Message and code of an error, in OpenAI's form or in any other."""
        try:
            found = json.loads(self.body)["error"]
            return str(found["message"]), str(found.get("code") or "")
        except (ValueError, KeyError, TypeError, AttributeError):
            return self.body.decode(errors="replace").strip()[:300] or self.reason, ""


def require_ok(answer: httpx.Response, url: str) -> None:
    """Raise what an answer's status says; its body was read. ``url`` is the server's address."""
    if answer.is_error:
        raise Refusal(answer.status_code, answer.headers, answer.content, answer.reason_phrase).error(url)


@contextmanager
def readable(url: str) -> Iterator[None]:
    """Whatever ends a connection to ``url`` or is no answer of this dialect, as ServerUnavailable."""
    try:
        yield
    except httpx.HTTPError as error:
        raise unavailable(f"{type(error).__name__}: {first_line(error)}", url) from error
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise unavailable(f"its answer cannot be read: {first_line(error)}", url) from error


def unavailable(what: str, url: str) -> ServerUnavailable:
    """The error for a server that gave no answer of this dialect."""
    return ServerUnavailable(what, where=url, remedy="Look at the server's log, and try again.")


def asked_of(model: str, prompt: Sequence[int], sampling: Sampling) -> dict[str, Any]:
    """The body of a request for an answer."""
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


def piece_in(line: str, url: str) -> Piece | None:
    """The part of an answer in a line of a stream from ``url``; None for other lines. Raises ServerUnavailable."""
    if not line.startswith("data:"):
        return None
    part = json.loads(line.removeprefix("data:"))
    if "error" in part:
        raise unavailable(str(part["error"].get("message")), url)
    return piece_of(part["choices"][0]) if part["choices"] else None


def piece_of(choice: Mapping[str, Any]) -> Piece:
    """Part of an answer, from a choice of it."""
    ids, found = choice["token_ids"], choice.get("logprobs")
    if found is None:
        tokens = [Token(id=number) for number in ids]
    else:
        tokens = [
            Token(id=number, logprob=value, top={_number(label): each for label, each in (top or {}).items()})
            for number, value, top in zip(ids, found["token_logprobs"], found["top_logprobs"], strict=True)
        ]
    return Piece(
        tokens=tuple(tokens),
        text=choice["text"],
        finish_reason=choice["finish_reason"],
        prompt=tuple(choice.get("prompt_token_ids") or ()),
    )


def scored_of(number: int, place: Mapping[str, Mapping[str, Any]], top: int) -> Token:
    """A token of a prompt with its log-probability, from its place in ``prompt_logprobs``."""
    values = {int(label): float(each["logprob"]) for label, each in place.items()}
    likeliest = sorted(values, key=lambda each: (-values[each], each))[:top]
    return Token(id=number, logprob=values[number], top={each: values[each] for each in likeliest})


def _number(label: str) -> int:
    return int(label.removeprefix(_LABEL))
