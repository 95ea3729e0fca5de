"""A judge behind an OpenAI-compatible API (``POST …/chat/completions``)."""

import json
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NoReturn

from ft_assets.settings.judge_hosts import JudgeHost
from ft_assets.settings.recipe.judges import JudgeModel
from ft_assets.workers.evals.preferences.judge import (
    CUT_SHORT,
    DECLINED,
    FORBIDDEN,
    TIMED_OUT,
    TOO_LONG,
    UNAVAILABLE,
    UNREADABLE,
    Judgement,
    JudgeUnavailable,
    Keep,
)
from ft_assets.workers.evals.preferences.network import NotAnswered, TimedOut, TooLarge, post_json
from ft_resources.errors import UserError
from ft_resources.pinned_http import Refused, Reply
from ft_resources.retry_after import retry_after

WHERE = "evaluation.judge"
MAX_TEXT = 20_000
"""Longest judgement in characters; longer ones count as unreadable."""

_TRIES = 5
_TRIES_AFTER_TIMEOUT = 2
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
GIVE_UP = 8
"""After this many consecutive failures, each after all tries, the endpoint counts as down: no prompt is to blame."""
_NO_API, _NO_CREDIT = "this is not a chat-completions API", "the account has no credit left"
# Caused by the settings or the account, not by a prompt.
_MISTAKES = {
    401: "the key was rejected",
    402: _NO_CREDIT,
    403: "access was denied",
    404: "the model or path does not exist",
    407: "a proxy requires a password",
    410: "the model is no longer available",
    **dict.fromkeys((405, 406, 411, 415, 501, 505), _NO_API),
}
# The same, by the code that an answer of another status names.
_CODES = {
    **dict.fromkeys(("insufficient_quota", "billing_hard_limit_reached", "billing_not_active"), _NO_CREDIT),
    **dict.fromkeys(("invalid_api_key", "account_deactivated"), _MISTAKES[401]),
    **dict.fromkeys(("model_not_found", "model_not_available"), _MISTAKES[404]),
    **dict.fromkeys(("unsupported_parameter", "unsupported_value"), "the model rejects one of our parameters"),
}


class EndpointJudge:
    """Requests several judgements at once, and retries if the endpoint is busy or fails.

    Args:
        host: the platform's settings for the endpoint's host (``allowed_host``).
        environment: contains the key.
        first_pause_s: seconds before the first retry; each further pause is twice as long.
        tries: how often a judgement is requested, at most.
        by_text: 403 refuses one text, as endpoints that moderate do, and not every request.
    """

    def __init__(
        self,
        settings: JudgeModel,
        host: JudgeHost,
        *,
        seed: int,
        environment: Mapping[str, str] = os.environ,
        first_pause_s: float = _FIRST_PAUSE_S,
        tries: int = _TRIES,
        by_text: bool = False,
    ) -> None:
        self._settings, self._host, self._seed = settings, host, seed
        self._headers = {"User-Agent": "ft-judge", "Accept": "application/json"}
        if settings.key is not None:
            self._headers["Authorization"] = f"Bearer {read_key(settings.key, environment)}"
        self._first_pause_s, self._tries, self._by_text = first_pause_s, tries, by_text
        self._stopped = threading.Event()
        self._failures, self._counting = 0, threading.Lock()

    def ask(self, messages: Sequence[str], keep: Keep) -> None:
        pool = ThreadPoolExecutor(self._settings.concurrency, thread_name_prefix="judge")
        try:
            futures: dict[Future[Judgement], int] = {
                pool.submit(self._judge, message): place for place, message in enumerate(messages)
            }
            for future in as_completed(futures):
                keep(futures.pop(future), future.result())
        except UserError:
            # Requests already sent are paid for.
            self._stopped.set()
            pool.shutdown(wait=True, cancel_futures=True)
            for future, place in futures.items():
                if not future.cancelled() and not future.exception():
                    keep(place, future.result())
            raise
        finally:
            # Also when the worker is asked to stop: do not wait for answers that are no longer needed.
            self._stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def _judge(self, message: str) -> Judgement:
        judgement = self._try(message)
        with self._counting:
            self._failures = self._failures + 1 if judgement.problem in (TIMED_OUT, UNAVAILABLE) else 0
            failures = self._failures
        if failures >= GIVE_UP and not self._stopped.is_set():
            raise JudgeUnavailable(
                f"the judge at {self._settings.host} did not answer {failures} times in a row (last: "
                f"{judgement.problem})",
                where=WHERE,
                remedy="Check the endpoint, then materialize eval_report again: finished judgements are kept.",
            )
        return judgement

    def _try(self, message: str) -> Judgement:
        pause, timeouts = self._first_pause_s, 0
        for number in range(1, self._tries + 1):
            if self._stopped.is_set():
                break
            wanted = 0.0
            try:
                reply = self._post(message)
                if not _passes(reply):
                    return self._read(reply)
                wanted = retry_after(reply.headers.get("retry-after"), _LONGEST_PAUSE_S)
            except TimedOut:
                timeouts += 1
                if timeouts == min(_TRIES_AFTER_TIMEOUT, self._tries):
                    return Judgement(problem=TIMED_OUT)
            except TooLarge:
                return Judgement(problem=UNREADABLE)
            except NotAnswered:
                pass
            if number < self._tries:
                self._stopped.wait(min(max(pause, wanted), _LONGEST_PAUSE_S))
                pause *= 2
        return Judgement(problem=UNAVAILABLE)

    def _post(self, message: str) -> Reply:
        settings = self._settings
        body: dict[str, Any] = {
            "model": settings.model,
            "messages": [{"role": "user", "content": message}],
            "temperature": 0,
            "max_tokens": settings.max_new_tokens,
            "seed": self._seed,
        }
        try:
            return post_json(
                f"{settings.endpoint}/chat/completions",
                json.dumps(body).encode(),
                self._headers,
                timeout_s=settings.timeout_s,
                private=self._host.private,
            )
        except Refused as refused:
            raise UserError(
                f"the judge cannot be used: {refused}",
                where=WHERE,
                remedy="For a host in this network, the platform can set private: true in judge_hosts.",
            ) from refused

    def _read(self, reply: Reply) -> Judgement:
        """Raises UserError for a response that will be the same for every prompt."""
        if reply.status == 403 and self._by_text:
            return Judgement(problem=FORBIDDEN)
        if reply.status != 200 and (known := _CODES.get(_code(reply)) or _MISTAKES.get(reply.status)):
            self._mistake(f"returned {reply.status}: {known}")
        if 300 <= reply.status < 400:
            self._mistake(f"redirects ({reply.status}), and redirects are not followed")
        if reply.status == 413:
            return Judgement(problem=TOO_LONG)
        if reply.status != 200:
            return Judgement(problem=DECLINED)
        return read_completion(reply.body)

    def _mistake(self, what: str) -> NoReturn:
        # Its message may repeat the prompt, which must not be logged.
        raise UserError(
            f"the judge at {self._settings.host} {what}",
            where=WHERE,
            remedy="Correct endpoint, model, key or account, then materialize eval_report again: finished judgements "
            "are kept.",
        )


def _passes(reply: Reply) -> bool:
    """Whether another try may be answered otherwise."""
    if _code(reply) in _CODES or reply.status in _MISTAKES:
        return False
    return reply.status in (408, 409, 425, 429) or reply.status >= 500


def _code(reply: Reply) -> str:
    """The code of an error, as OpenAI's API gives it, or ""."""
    try:
        found = json.loads(reply.body)["error"]["code"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return ""
    return found if isinstance(found, str) else ""


def read_completion(body: bytes) -> Judgement:
    """The text of a chat completion, or why there is none."""
    try:
        value = json.loads(body, parse_constant=_no_number)
        choice = value["choices"][0]
        text, reason = choice["message"]["content"], choice.get("finish_reason")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return Judgement(problem=UNREADABLE)
    if reason == "length":
        return Judgement(problem=CUT_SHORT)
    if reason == "content_filter":
        return Judgement(problem=DECLINED)
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        return Judgement(problem=UNREADABLE)
    # A lone surrogate cannot be encoded in a file.
    return Judgement(text=text.encode(errors="replace").decode())


def read_key(name: str, environment: Mapping[str, str]) -> str:
    """The API key in the variable ``name``, or in the file named by ``<name>_FILE``. Raises UserError without one."""
    key, path = environment.get(name, ""), environment.get(f"{name}_FILE", "")
    if not key and path:
        try:
            key = Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError):
            key = ""
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable():
        raise UserError(
            f"the key {name} is missing or unusable",
            where=f"{WHERE}, key",
            remedy=f"Set {name}, or {name}_FILE with the path of a file that holds it: for evaluations in the "
            "workers' environment, for rollouts in that of Dagster's code location.",
        )
    return key


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")
