"""Requests to a server, with its errors as the functions of the API raise them."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from ft_assets.remote.login import Login
from ft_resources.errors import (
    BadBase,
    BadData,
    BadRecipe,
    NotFound,
    NotIdentified,
    NotPermitted,
    StoreUnavailable,
    SubmissionPaused,
    UserError,
)
from ft_resources.retry_after import retry_after

# A server answers long calls in between; an upload or a list may take this long.
_TIMEOUT = httpx.Timeout(300.0, connect=20.0)
_TOO_MUCH, _UNAVAILABLE = 429, (502, 503, 504)
_TRIES = 5
_MOST_REST_S = 60.0
_EXPIRES_S = 86_400
_JSON = "application/json"
_EVENT = "data: "
_KINDS: dict[str, type[UserError]] = {
    kind.__name__: kind for kind in (BadBase, BadData, BadRecipe, NotFound, SubmissionPaused)
}
_OF_STATUS: dict[int, type[UserError]] = {401: NotIdentified, 403: NotPermitted, 404: NotFound, 503: StoreUnavailable}


class Connection:
    """Requests in the name of a login's key."""

    def __init__(self, login: Login) -> None:
        self.server = login.server
        # Redirects are not followed: the key is for this server alone.
        self._http = httpx.Client(
            base_url=login.server, headers={"authorization": f"Bearer {login.key}"}, timeout=_TIMEOUT
        )

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> httpx.Response:
        return self._ask("GET", path, again=True, params=params)

    def post(self, path: str, body: Any, *, again: bool) -> httpx.Response:
        """``again``: whether it may be asked again after an answer was lost."""
        return self._ask("POST", path, again=again, json=body)

    def events(self, path: str, body: Any) -> Iterator[Any]:
        """The server-sent events of a POST's answer, as they come; asked again while a model's server starts."""
        for left in range(_TRIES - 1, -1, -1):
            with self._explained(), self._http.stream("POST", path, json=body) as answer:
                if answer.status_code == 200:
                    for line in answer.iter_lines():
                        if line.startswith(_EVENT):
                            yield json.loads(line.removeprefix(_EVENT))
                    return
                answer.read()
                if not left or answer.status_code not in (_TOO_MUCH, *_UNAVAILABLE):
                    raise self._error(answer)
            time.sleep(_rest(answer))

    def upload(self, path: Path) -> str:
        """The id of an uploaded copy of a file, which the server removes after a day. Raises UserError for a file that
        cannot be read."""
        fields = {"purpose": "fine-tune", "expires_after[anchor]": "created_at", "expires_after[seconds]": _EXPIRES_S}
        try:
            with path.open("rb") as file:
                answer = self._ask("POST", "/v1/files", again=False, data=fields, files={"file": (path.name, file)})
        except OSError as error:
            raise BadData(
                f"the file cannot be read ({error.strerror})", where=str(path), remedy="Name a file that you may read."
            ) from error
        return str(answer.json()["id"])

    def remove(self, file_id: str) -> None:
        """Remove an uploaded file."""
        self._ask("DELETE", f"/v1/files/{file_id}", again=True)

    def download(self, path: str, params: Mapping[str, Any], target: Path) -> None:
        """Write the body of an answer to ``target``."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._explained(), self._http.stream("GET", path, params=params) as answer:
            if answer.status_code != 200:
                answer.read()
                raise self._error(answer)
            with target.open("wb") as file:
                for chunk in answer.iter_bytes():
                    file.write(chunk)

    def _ask(self, method: str, path: str, *, again: bool, **sent: Any) -> httpx.Response:
        for left in range(_TRIES - 1, -1, -1):
            try:
                with self._explained():
                    answer = self._http.request(method, path, **sent)
            except StoreUnavailable:
                if not left or not again:
                    raise
                time.sleep(1.0)
                continue
            if left and (answer.status_code == _TOO_MUCH or (again and answer.status_code in _UNAVAILABLE)):
                time.sleep(_rest(answer))
                continue
            break
        if answer.status_code not in (200, 202) or _JSON not in answer.headers.get("content-type", ""):
            raise self._error(answer)
        return answer

    def _error(self, answer: httpx.Response) -> UserError:
        """The error in an answer."""
        try:
            told = answer.json()["error"]
            said = told.get("ft")
            message = str(told["message"])
        except (ValueError, KeyError, TypeError, AttributeError):
            return UserError(
                f"this is not an answer of the platform (status {answer.status_code})",
                where=self.server,
                remedy="Check the address: ft whoami.",
            )
        of_status = _OF_STATUS.get(answer.status_code, UserError)
        if said:
            kind = _KINDS.get(said["kind"], of_status)
            return kind(said["what"], where=said["where"], remedy=said["remedy"])
        return of_status(message, where=self.server)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as error:
            raise StoreUnavailable(
                f"the server does not answer ({type(error).__name__})",
                where=self.server,
                remedy="Check the address (ft whoami) and the network, and try again.",
            ) from error


def _rest(answer: httpx.Response) -> float:
    """Seconds until it may be asked again."""
    return retry_after(answer.headers.get("retry-after"), _MOST_REST_S) or 1.0
