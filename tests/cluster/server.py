"""The API over HTTP: paths, watches, logs, tokens; and the ways in which such a server fails."""

import json
import queue
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.cluster import kueue_versions
from tests.cluster.admission import admit, check_change, check_types, patched, selector, without
from tests.cluster.discovery import discovery
from tests.cluster.objects import KINDS, KUEUE, PODS, ApiError, Change, Kind, Match, Object, Objects, condition

_PATH = re.compile(
    r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+/[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+)(?:/(?P<part>[a-z]+))?)?"
)
_BOOKMARK_S = 60.0
# How soon a watch is ended whose client went away.
_HANG_UP_S = 1.0
Logs = Callable[[Object, str | None, bool, int | None], Iterator[bytes]]


@dataclass
class Fault:
    """Answer ``times`` requests that match ``where`` (a pattern on "METHOD path?query") with ``code``."""

    code: int
    where: str = ""
    times: int = 1
    headers: tuple[tuple[str, str], ...] = ()


class Server(ThreadingHTTPServer):
    """``logs(pod, container, follow, tail)`` gives a log in chunks. ``tokens`` name the namespaces they may use,
    ``kueue`` the versions of Kueue's API that are served."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024

    def __init__(self, objects: Objects, logs: Logs, port: int = 0) -> None:
        self.objects, self.logs = objects, logs
        self.tokens: dict[str, set[str] | None] = {}
        self.kueue: tuple[str, ...] = ()
        self.faults: list[Fault] = []
        self.applied: dict[tuple[Kind, str, str], Object] = {}
        self.requests: deque[tuple[float, str]] = deque(maxlen=100_000)
        self.watches: dict[socket.socket, queue.SimpleQueue[bytes | None]] = {}
        self.connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), Handler)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def break_watches(self) -> int:
        """End every watch in the middle of a line, as a proxy does that restarts; how many there were."""
        broken = list(self.watches.values())
        for lines in broken:
            lines.put(None)
        return len(broken)

    def stop(self) -> None:
        """Stop answering and cut every connection."""
        self.shutdown()
        self.server_close()
        self.break_watches()
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def setup(self) -> None:
        super().setup()
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        with suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: Any) -> None: ...

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append((time.monotonic(), f"{self.command} {self.path}"))
        self._old = False
        try:
            self._fail_on_demand()
            self._serve(json.loads(body) if body else {})
        except ApiError as error:
            self._send(error.code, error.status, error.headers)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            text = f"the object provided is unrecognized: {type(error).__name__}: {error}"
            self._send(400, ApiError(400, "BadRequest", text).status)

    do_GET = do_POST = do_PATCH = do_DELETE = answer

    def _fail_on_demand(self) -> None:
        for fault in self.server.faults:
            if fault.times > 0 and re.search(fault.where, f"{self.command} {self.path}"):
                fault.times -= 1
                reason = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 503: "ServiceUnavailable"}
                name = reason.get(fault.code, "InternalError")
                raise ApiError(fault.code, name, "this answer was asked for by a test", dict(fault.headers))

    def _serve(self, body: Object) -> None:
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query))
        if told := discovery(url.path, self.server.kueue):
            return self._send(200, told)
        at = _PATH.fullmatch(url.path)
        served = at["core"] or at["group"] if at else ""
        if served in {f"{kueue_versions.GROUP}/{version}" for version in self.server.kueue}:
            self._old = served == kueue_versions.OLD
            served, body = KUEUE, kueue_versions.kept(body) if self._old else body
        elif served.startswith(kueue_versions.GROUP):
            served = ""
        kind = KINDS.get((served, at["plural"])) if at else None
        if at is None or kind is None:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        self._authorize(kind, at["namespace"])
        namespace, name, part = at["namespace"] or "", at["name"] or "", at["part"] or ""
        method, objects = self.command, self.server.objects
        if not name and method == "GET":
            match = selector(kind, query.get("labelSelector", ""), query.get("fieldSelector", ""))
            if query.get("watch", "").lower() in ("true", "1"):
                return self._watch(kind, namespace, match, query)
            with objects.lock:
                items, version = objects.list(kind, namespace, match), str(objects.version)
            return self._send(200, _list(kind, items, version))
        if not name and method == "POST":
            check_types(kind, body)
            return self._send(201, objects.create(kind, namespace, admit(objects, kind, namespace, body)))
        if kind is PODS and part == "log" and method == "GET":
            return self._log(objects.get(kind, namespace, name), query)
        if kind is PODS and part == "eviction" and method == "POST":
            return self._evict(objects.get(kind, namespace, name), body)
        if part not in ("", "status") or method == "POST":
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        if method == "GET":
            return self._send(200, objects.get(kind, namespace, name))
        if method == "DELETE":
            options = {**query, **body}
            if "gracePeriodSeconds" in options:
                options["gracePeriodSeconds"] = int(options["gracePeriodSeconds"])
            gone = objects.delete(kind, namespace, name, options)
            if kind is PODS or objects.find(kind, namespace, name):
                return self._send(200, gone)
            done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
            details = {"name": name, "kind": kind.plural, "uid": gone["metadata"]["uid"]}
            return self._send(200, done | {"details": details})
        if self.headers.get("Content-Type") == "application/apply-patch+yaml":
            return self._apply(kind, namespace, body, query)
        with objects.lock:
            old = objects.get(kind, namespace, name)
            new = patched(old, body)
            if part == "":
                check_change(kind, old, new)
            return self._send(200, objects.update(kind, new, part))

    def _apply(self, kind: Kind, namespace: str, body: Object, query: dict[str, str]) -> None:
        """A server-side apply by the only manager who ever applies: fields that it no longer has are taken away."""
        objects, place = self.server.objects, (kind, namespace, body["metadata"]["name"])
        with objects.lock:
            check_types(kind, body)
            old = objects.find(kind, namespace, body["metadata"]["name"])
            taken = without(self.server.applied.get(place, {}), body)
            new = patched(patched(old or {}, taken), body) if old else admit(objects, kind, namespace, body)
            if query.get("dryRun") == "All":
                return self._send(200, new)
            self.server.applied[place] = body
            done = objects.update(kind, new) if old else objects.create(kind, namespace, new)
            self._send(200 if old else 201, done)

    def _authorize(self, kind: Kind, namespace: str | None) -> None:
        tokens = self.server.tokens
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if token not in tokens:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        allowed = tokens[token]
        if allowed is not None and namespace not in allowed:
            group = kind.api.rpartition("/")[0]
            name = f"{kind.plural}.{group}" if group else kind.plural
            verb = {"GET": "get", "POST": "create", "PATCH": "patch", "DELETE": "delete"}[self.command]
            where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
            asked = f'cannot {verb} resource "{kind.plural}" in API group "{group}" {where}'
            raise ApiError(403, "Forbidden", f'{name} is forbidden: User "{token}" {asked}')

    def _evict(self, pod: Object, body: Object) -> None:
        def disrupted(item: Object) -> None:
            condition(item["status"], "DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting")

        meta = pod["metadata"]
        if pod["status"]["phase"] not in ("Succeeded", "Failed"):
            self.server.objects.change(PODS, pod, disrupted, "status")
        self.server.objects.delete(PODS, meta["namespace"], meta["name"], body.get("deleteOptions"))
        self._send(201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})

    def _log(self, pod: Object, query: dict[str, str]) -> None:
        follow, tail = query.get("follow", "").lower() == "true", query.get("tailLines")
        if not pod["spec"].get("nodeName"):
            self.send_response(204)
            return self.end_headers()
        chunks = self.server.logs(pod, query.get("container"), follow, None if tail is None else int(tail))
        self._start("text/plain")
        with suppress(OSError):
            for chunk in chunks:
                self._chunk(chunk)
            self.wfile.write(b"0\r\n\r\n")

    def _watch(self, kind: Kind, namespace: str, match: Match, query: dict[str, str]) -> None:
        lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        objects, since = self.server.objects, int(query.get("resourceVersion") or 0)
        until = objects.clock() + float(query.get("timeoutSeconds") or 1800)
        bookmarks = query.get("allowWatchBookmarks", "").lower() == "true"

        def listener(change: Change) -> None:
            here = change.kind is kind and namespace in ("", change.object["metadata"].get("namespace", ""))
            if here and (event := _seen(change, match)):
                lines.put(_line(event))

        self._start("application/json")
        try:
            with objects.lock:
                if since and since < objects.compacted:
                    gone = f"too old resource version: {since} ({objects.compacted})"
                    return self._end(_line({"type": "ERROR", "object": ApiError(410, "Expired", gone).status}))
                for item in [] if since else objects.list(kind, namespace, match):
                    lines.put(_line({"type": "ADDED", "object": item}))
                for change in objects.history if since else ():
                    if change.version > since:
                        listener(change)
                objects.listeners.append(listener)
                self.server.watches[self.connection] = lines
            told = time.monotonic()
            while (left := max(until - objects.clock(), 0.0)) or not lines.empty():
                try:
                    line = lines.get(timeout=min(left, _HANG_UP_S))
                except queue.Empty:
                    if self._hung_up():
                        return
                    if time.monotonic() - told < _BOOKMARK_S:
                        continue
                    line = self._bookmark(kind, lines) if bookmarks else b""
                told = time.monotonic()
                if line is None:
                    self._chunk(b'{"type": "MODIFIED", "obj')
                    return self.connection.shutdown(socket.SHUT_RDWR)
                self._chunk(line)
            self._end(self._bookmark(kind, lines) if bookmarks else b"")
        except OSError:
            self.close_connection = True
        finally:
            self.server.watches.pop(self.connection, None)
            with objects.lock:
                objects.listeners = [other for other in objects.listeners if other is not listener]

    def _hung_up(self) -> bool:
        """Whether the client has closed the connection; it has nothing to say while it watches."""
        with suppress(BlockingIOError):
            self.close_connection = not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        return self.close_connection

    def _bookmark(self, kind: Kind, lines: "queue.SimpleQueue[bytes | None]") -> bytes:
        """The version up to which this watch has been told everything; nothing while there is more to tell."""
        with self.server.objects.lock:
            meta = {"resourceVersion": str(self.server.objects.version), "creationTimestamp": None}
            item = {"kind": kind.name, "apiVersion": kind.api, "metadata": meta}
            return _line({"type": "BOOKMARK", "object": item}) if lines.empty() else b""

    def _start(self, content: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        if data:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _end(self, line: bytes) -> None:
        self._chunk(line)
        self.wfile.write(b"0\r\n\r\n")

    def _send(self, code: int, body: Object, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(kueue_versions.shown(body) if self._old else body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def _list(kind: Kind, items: list[Object], version: str) -> Object:
    meta = {"resourceVersion": version}
    return {"kind": f"{kind.name}List", "apiVersion": kind.api, "metadata": meta, "items": items}


def _line(event: Object) -> bytes:
    return json.dumps(event).encode() + b"\n"


def _seen(change: Change, match: Match) -> Object | None:
    """A change as one watch sees it: what comes to match was added, what ceases to match was deleted."""
    before = change.before is not None and match(change.before)
    after = change.type != "DELETED" and match(change.object)
    if not before and not after:
        return None
    return {"type": "MODIFIED" if before and after else "ADDED" if after else "DELETED", "object": change.object}
