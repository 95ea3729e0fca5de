"""Requests to a Kubernetes API server by the official client: plain dicts in and out.

Its typed models are not used: they hide fields that they do not know, and do not read what older servers stored.
"""

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ft_resources.errors import ClusterUnavailable, LauncherRefusal
from ft_resources.kubernetes.names import MANAGED_BY
from ft_resources.kubernetes.objects import Object
from ft_resources.retry_after import retry_after

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, ApiException

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
        client: made without retries of its own.
        patience_s: how long requests to a failing server are retried.
    """

    client: "ApiClient"
    patience_s: float = 20.0
    sleep: Callable[[float], None] = time.sleep

    @classmethod
    def connect(cls, context: str | None = None) -> "Api":
        """The cluster that this process runs in, or the kubeconfig's. Raises ClusterUnavailable without either."""
        from kubernetes import client, config

        settings = client.Configuration()
        # Here it is known how long to try, and what a POST without an answer means.
        settings.retries = 0
        try:
            try:
                config.load_incluster_config(settings)
                # Variables of a proxy are for what is outside of the cluster.
                settings.proxy = None
            except config.ConfigException:
                # The client reads the variable only when it is first imported.
                config.load_kube_config(os.environ.get("KUBECONFIG"), context, settings)
        except config.ConfigException as error:
            raise ClusterUnavailable(
                f"no cluster is configured ({error})",
                where="KUBECONFIG",
                remedy="Set KUBECONFIG to a kubeconfig file, or run this in a pod of the cluster.",
            ) from error
        return cls(client=client.ApiClient(settings))

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
        from kubernetes.client import ApiException

        asked = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_S)}
        request = _Request("GET", path, {**asked, "resourceVersion": version, **query})
        try:
            return Events(self._send(request, read_s=WATCH_S + 30.0))
        except ApiException as error:
            raise _refusal(error) from error
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise ConnectionError(str(error)) from error

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
        from kubernetes.client import ApiException

        patience_s = self.patience_s if patience_s is None else patience_s
        started, wait_s = time.monotonic(), _FIRST_WAIT_S
        while True:
            hint = 0.0
            try:
                with closing(self._send(request, read_s=_ANSWER_S)) as answer:
                    data: bytes = answer.read()
                return data
            except ApiException as error:
                refusal = _refusal(error)
                # Of a POST it is no answer about the name: two requests counted for one quota at once.
                passes = refusal.code in _PASSING or (request.method == "POST" and refusal.reason == "Conflict")
                if not passes:
                    raise refusal from error
                problem = str(refusal)
                hint = retry_after((error.headers or {}).get("Retry-After"), _LONGEST_WAIT_S)
            # A ValueError is of a refusal that is no text.
            except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
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
        """Send one request; returns the open response. Raises ApiException for a refusal."""
        return self.client.call_api(
            request.path,
            request.method,
            query_params=list(request.query.items()),
            header_params={"Accept": "application/json", "Content-Type": request.content},
            body=request.body,
            auth_settings=["BearerToken"],
            _preload_content=False,
            _request_timeout=(_CONNECT_S, read_s),
        )


class Events:
    """The events of a watch, until the server ends the stream, or any thread of this process does.

    Iterating raises ConnectionError for a stream that breaks or is ended here, ApiRefusal for an error that the server
    tells. ``close`` when done.
    """

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[Object]:
        import urllib3
        from kubernetes.client import ApiException
        from kubernetes.watch import Watch

        try:
            # With a time limit it does not ask again by itself: who follows knows from which version on.
            for event in Watch().stream(lambda **_: self._answer, timeout_seconds=WATCH_S):
                if event is None:
                    raise ConnectionError("what answers for the cluster's API does not speak JSON")
                yield event
        except ApiException as error:
            raise _refusal(error) from error
        except (urllib3.exceptions.HTTPError, OSError, ValueError, LookupError, TypeError) as error:
            raise ConnectionError(str(error)) from error

    def end(self) -> None:
        """Wake the thread that waits for the next event; its stream is broken."""
        # A stream that has ended in the meantime has no connection any more.
        with suppress(ValueError, RuntimeError, OSError):
            self._answer.shutdown()

    def close(self) -> None:
        self._answer.close()


def _refusal(error: "ApiException") -> ApiRefusal:
    """The server's Status as an exception."""
    code, body = error.status or 0, error.body or ""
    try:
        status = json.loads(body)
        return ApiRefusal(code, str(status.get("reason") or ""), str(status.get("message") or "")[:2000])
    except (ValueError, AttributeError):
        return ApiRefusal(code, "", (body or str(error.reason))[:300])


def _path(api: str, plural: str, namespace: str = "", name: str = "") -> str:
    """The path of a collection (of all namespaces if none is given), or of an object in it."""
    inside = f"{api}/namespaces/{namespace}/{plural}" if namespace else f"{api}/{plural}"
    return f"{inside}/{name}" if name else inside


jobs = partial(_path, "/apis/batch/v1", "jobs")
pods = partial(_path, "/api/v1", "pods")
services = partial(_path, "/api/v1", "services")
network_policies = partial(_path, "/apis/networking.k8s.io/v1", "networkpolicies")
events = partial(_path, "/api/v1", "events")
