"""Requests to a Kubernetes API server: plain dicts in and out, over a pod's own login or the official client's.

The client's typed models are not used: they cost a waiting run memory, and hide fields that they do not know.
"""

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlencode

from ft_resources.errors import ClusterUnavailable, LauncherRefusal
from ft_resources.kubernetes.names import MANAGED_BY
from ft_resources.kubernetes.objects import Object
from ft_resources.kubernetes.pod_client import PodClient
from ft_resources.retry_after import retry_after

_PASSING = frozenset({429, 500, 502, 503, 504})
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 10.0
_CONNECT_S, _ANSWER_S = 10.0, 60.0
WATCH_S = 300
"""The server is asked to end a watch after this time; a watch that is silent for longer is dead."""


class ApiRefusal(LauncherRefusal):
    """A refusal that a retry does not change; ``code`` is the HTTP status, ``reason`` a word of the server's Status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        self.code, self.reason, self.message = code, reason, message
        super().__init__(f"{code} {reason}: {message}")


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Object | None = None
    content: str = "application/json"


@dataclass(kw_only=True)
class Api:
    """One cluster.

    Args:
        client: ``kubernetes.client.ApiClient`` or ``PodClient``.
        patience_s: how long requests to a failing server are retried.
    """

    client: Any
    patience_s: float = 20.0
    sleep: Callable[[float], None] = time.sleep
    _headers: dict[str, str] = field(default_factory=lambda: {"Accept": "application/json"})

    @classmethod
    def connect(cls, context: str | None = None) -> "Api":
        """The cluster that this process runs in, or the kubeconfig's. Raises ClusterUnavailable without either."""
        if (pod := PodClient.here()) is not None:
            return cls(client=pod)
        from kubernetes import config

        try:
            # The client reads the variable only when it is first imported.
            file = os.environ.get("KUBECONFIG")
            return cls(client=config.new_client_from_config(config_file=file, context=context))
        except config.ConfigException as error:
            raise ClusterUnavailable(
                f"no cluster is configured ({error})",
                where="KUBECONFIG",
                remedy="Set KUBECONFIG to a kubeconfig file, or run this in a pod of the cluster.",
            ) from error

    def get(self, path: str) -> Object | None:
        """The object at ``path``; None if there is none. Raises ApiRefusal and ClusterUnavailable, like all methods."""
        try:
            return self._json(_Request("GET", path))
        except ApiRefusal as refusal:
            if refusal.code == 404:
                return None
            raise

    def list(self, path: str, query: Mapping[str, str], *, patient: bool = True) -> Object:
        """A list with its ``metadata.resourceVersion``; requested only once unless ``patient``."""
        return self._json(_Request("GET", path, query), patience_s=None if patient else 0.0)

    def items(self, path: str, query: Mapping[str, str], *, patient: bool = True) -> Sequence[Object]:
        """The items of a list."""
        found: Sequence[Object] = self.list(path, query, patient=patient).get("items") or ()
        return found

    def create(self, path: str, body: Object) -> Object:
        """Raises ApiRefusal, with code 409 if the name is taken."""
        return self._json(_Request("POST", path, body=body))

    def patch(self, path: str, body: Object) -> Object:
        """A merge patch (RFC 7386)."""
        return self._json(_Request("PATCH", path, body=body, content="application/merge-patch+json"))

    def apply(self, path: str, body: Object, *, only_try: bool = False) -> Object:
        """The object after a server-side apply, which takes over fields of others; ``only_try`` writes nothing."""
        query = {"fieldManager": MANAGED_BY, "force": "true", **({"dryRun": "All"} if only_try else {})}
        return self._json(_Request("PATCH", path, query, body, content="application/apply-patch+yaml"))

    def delete(self, path: str, **options: Any) -> None:
        """Request a deletion; a missing object counts as deleted."""
        try:
            self._json(_Request("DELETE", path, body={"kind": "DeleteOptions", "apiVersion": "v1", **options}))
        except ApiRefusal as refusal:
            if refusal.code != 404:
                raise

    def log(self, path: str, container: str) -> bytes:
        """A container's output so far; empty if it is not available (any more)."""
        try:
            return self._answered(_Request("GET", f"{path}/log", {"container": container}))
        except (ApiRefusal, ClusterUnavailable):
            return b""

    def watch(self, path: str, version: str, query: Mapping[str, str]) -> "Events":
        """Events after ``version``. No retries. Raises ApiRefusal, and ConnectionError if no stream comes about."""
        import urllib3

        asked = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_S)}
        request = _Request("GET", path, {**asked, "resourceVersion": version, **query})
        try:
            answer = self._send(request, read_s=WATCH_S + 30.0)
            if answer.status >= 300:
                with closing(answer):
                    raise _refusal(answer.status, answer.read())
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ConnectionError(str(error)) from error
        return Events(answer)

    def _json(self, request: _Request, patience_s: float | None = None) -> Object:
        data = self._answered(request, patience_s) or b"{}"
        try:
            answer: Object = json.loads(data)
        except ValueError as error:
            raise ClusterUnavailable(
                f"what answers for the cluster's API does not speak JSON ({data[:100].decode(errors='replace')!r})",
                where=f"{request.method} {request.path}",
                remedy="Check what is between here and the API server: a proxy may have answered.",
            ) from error
        return answer

    def _answered(self, request: _Request, patience_s: float | None = None) -> bytes:
        """The body of the answer, retried until there is one or ``patience`` (None: this cluster's) is over."""
        import urllib3

        patience_s = self.patience_s if patience_s is None else patience_s
        started, wait_s = time.monotonic(), _FIRST_WAIT_S
        while True:
            hint = 0.0
            try:
                with closing(self._send(request, read_s=_ANSWER_S)) as answer:
                    data: bytes = answer.read()
                if answer.status < 300:
                    return data
                refusal = _refusal(answer.status, data)
                # Of a POST it is no answer about the name: two requests counted for one quota at once.
                passes = answer.status in _PASSING or (request.method == "POST" and refusal.reason == "Conflict")
                if not passes:
                    raise refusal
                problem = str(refusal)
                hint = retry_after(answer.headers.get("Retry-After"), _LONGEST_WAIT_S)
            except (urllib3.exceptions.HTTPError, OSError) as error:
                problem = str(error)
            if time.monotonic() - started >= patience_s:
                raise ClusterUnavailable(
                    f"the cluster's API does not answer ({problem[:300]})",
                    where=f"{request.method} {request.path}",
                    remedy="Check that the API server can be reached; running work continues without it.",
                )
            self.sleep(max(hint, wait_s * random.uniform(0.5, 1.0)))
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def _send(self, request: _Request, *, read_s: float) -> Any:
        """Send one request; returns the open response."""
        import urllib3

        headers: dict[str, str] = {**self.client.default_headers, **self._headers}
        self.client.update_params_for_auth(headers, [], ["BearerToken"])
        if request.body is not None:
            headers["Content-Type"] = request.content
        url = f"{self.client.configuration.host}{request.path}"
        return self.client.rest_client.pool_manager.request(
            request.method,
            f"{url}?{urlencode(request.query)}" if request.query else url,
            body=None if request.body is None else json.dumps(request.body),
            headers=headers,
            preload_content=False,
            retries=False,
            timeout=urllib3.Timeout(connect=_CONNECT_S, read=read_s),
        )


class Events:
    """The events of a watch, until the server ends the stream, or any thread of this process does.

    Iterating raises ConnectionError for a stream that breaks or is ended here. ``close`` when done.
    """

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[Object]:
        import urllib3

        rest = b""
        try:
            for part in self._answer.stream(amt=None):
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield json.loads(line)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise ConnectionError(str(error)) from error

    def end(self) -> None:
        """Wake the thread that waits for the next event; its stream is broken."""
        # A stream that has ended in the meantime has no connection any more.
        with suppress(ValueError, RuntimeError, OSError):
            self._answer.shutdown()

    def close(self) -> None:
        self._answer.close()


def _refusal(code: int, data: bytes) -> ApiRefusal:
    """The server's Status as an exception."""
    try:
        status = json.loads(data)
        return ApiRefusal(code, str(status.get("reason") or ""), str(status.get("message") or "")[:2000])
    except (ValueError, AttributeError):
        return ApiRefusal(code, "", data[:300].decode(errors="replace"))


def _path(api: str, plural: str, namespace: str = "", name: str = "") -> str:
    """The path of a collection (of all namespaces if none is given), or of an object in it."""
    inside = f"{api}/namespaces/{namespace}/{plural}" if namespace else f"{api}/{plural}"
    return f"{inside}/{name}" if name else inside


jobs = partial(_path, "/apis/batch/v1", "jobs")
pods = partial(_path, "/api/v1", "pods")
services = partial(_path, "/api/v1", "services")
network_policies = partial(_path, "/apis/networking.k8s.io/v1", "networkpolicies")
events = partial(_path, "/api/v1", "events")
