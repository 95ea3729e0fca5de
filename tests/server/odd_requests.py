"""Requests that fit an OpenAPI description, and the same damaged in one place: what no client sends by intent."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from tests.server.strangers import Asked, Stranger

ROW = b'{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n'
_BOUNDARY = "multipart/form-data; boundary=b"
_FORM = (
    b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n'
    b'--b\r\nContent-Disposition: form-data; name="%s"; filename="rows.jsonl"\r\n\r\n' + ROW + b"\r\n--b--\r\n"
)
_NESTED: Any = json.loads("[" * 300 + "]" * 300)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 2**31, 2**63, -(2**63) - 1, 10**300, 1e308, -0.0, 0.1),
    *(float("nan"), float("inf"), "", " ", "\x00", "a\x00b", "\ud800", "\U0001f600", "\u202e", "é" * 300, "a" * 70_000),
    *("../../etc", "file:///etc/passwd", "%s%n", "\r\nx: y", "1e999", [], {}, [[]], {"": ""}, _NESTED),
)
_NAMES = ("", "\x00", "\ud800", "__proto__", "a.b", "tenant", "actor", "store", "x" * 300)
_PLACES = ("%00", "%ff", "%ud800", "..", "%2e%2e", "%2F", "%0d%0a", quote("é"), "%20", "x" * 3000, "{}", "*", ";", "+")
_BODIES = (
    *(b"", b"null", b"[]", b"{", b'"', b"\xff\xfe", b"\x00", b"{}{}", b"1" * 5000, b'{"a":1,"a":2}', b"[" * 60_000),
    *(b"NaN", b"-Infinity", b"\xef\xbb\xbf{}", b"--b\r\n", b"a" * ((1 << 20) + 1), b"purpose=fine-tune&file=x"),
)
_KINDS = (
    *("", "text/plain", "application/json; charset=utf-16", "application/x-www-form-urlencoded", "multipart/form-data"),
    *(_BOUNDARY, "multipart/form-data; boundary=", "multipart/mixed; boundary=b", "application/json", ";", "x" * 2000),
)
_HEADERS = (
    *(("idempotency-key", "x" * 5000), ("idempotency-key", "\xff"), ("last-event-id", "\xff"), ("range", "bytes=9-1")),
    *(("authorization", "Bearer"), ("authorization", "Bearer ft-\xff"), ("authorization", "Basic Og=="), ("host", "")),
    *(("x-forwarded-for", "\xff, 1"), ("accept", "\xff"), ("if-none-match", "*"), ("cookie", "=;;\xff")),
    *(("content-length", "-1"), ("expect", "100-continue"), ("content-encoding", "gzip"), ("origin", "null")),
)
# httpx sends no address over 64 KiB.
_LONGEST = 3000
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "PROPFIND")


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A request as bytes, or nearly so: ``target`` is path and query, percent-encoded."""

    method: str
    target: str
    headers: dict[str, str]
    content: bytes

    @property
    def encoded_headers(self) -> list[tuple[bytes, bytes]]:
        return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers.items()]


class OddRequests:
    """Makes requests to every address of an OpenAPI description ``schema``; of four, three are damaged.

    Args:
        known: ids and keys that are there, so that requests get further than to a missing one.
    """

    def __init__(self, schema: dict[str, Any], known: Sequence[str], seed: int) -> None:
        self._fitting, self._random = Stranger(schema, known, seed), random.Random(seed)

    def requests(self, count: int) -> Iterator[Sent]:
        for asked in self._fitting.requests(count):
            yield self._sent(asked, damaged=self._random.random() < 0.75)

    def _sent(self, asked: Asked, *, damaged: bool) -> Sent:
        method, query, headers, body = asked.method, dict(asked.query), dict(asked.headers), asked.body
        path, content = quote(asked.path, safe="/%"), b""
        if body is None and method == "POST":
            # Bodies that are read as they come are not described.
            headers["content-type"] = _BOUNDARY
            content = _FORM % (b"data" if path.endswith("/parts") else b"file")
        place = self._random.choice(("body", "body", "raw", "path", "query", "header", "kind", "method"))
        if damaged and place == "body":
            body = self._spoilt(body)
            at = self._random.randrange(len(content) + 1)
            content = content[:at] + self._random.choice((b"", b"\x00", content[at + 1 :], content))
        if body is not None:
            headers["content-type"], content = "application/json", json.dumps(body).encode()
        if damaged and place == "raw":
            content = self._random.choice(_BODIES)
        elif damaged and place == "path":
            parts = path.split("/")
            parts[self._random.randrange(1, len(parts))] = self._random.choice(_PLACES)
            path = "/".join(parts)
        elif damaged and place == "query":
            query[self._random.choice([*query, "after", "limit", "x", ""])] = str(self._random.choice(_VALUES))[
                :_LONGEST
            ]
        elif damaged and place == "header":
            name, value = self._random.choice(_HEADERS)
            headers[name] = value
        elif damaged and place == "kind":
            headers["content-type"] = self._random.choice(_KINDS)
        elif damaged and place == "method":
            method = self._random.choice(_METHODS)
        pairs = "&".join(f"{_encoded(name)}={_encoded(value)}" for name, value in query.items())
        return Sent(method=method, target=f"{path}?{pairs}" if pairs else path, headers=headers, content=content)

    def _spoilt(self, value: Any) -> Any:
        """``value`` with one value in it exchanged, left out or added."""
        choose = self._random.choice
        if isinstance(value, dict) and value and self._random.random() < 0.8:
            name = choose(list(value))
            inner = (
                {name: self._spoilt(value[name])} if self._random.random() < 0.8 else {choose(_NAMES): choose(_VALUES)}
            )
            kept = {each: value[each] for each in value if each != name or self._random.random() < 0.7}
            return {**kept, **inner} if self._random.random() < 0.9 else kept
        if isinstance(value, list) and value and self._random.random() < 0.5:
            return [*value[1:], self._spoilt(value[0])]
        return choose(_VALUES)


def _encoded(text: str) -> str:
    return quote(text.encode(errors="surrogatepass"))
