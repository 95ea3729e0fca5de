"""Multipart bodies, read as they come: the file's bytes go where they are kept, and never into memory or a copy."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import anyio
from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect

from ft_assets.server.body_limit import without_limit
from ft_resources.errors import BadData

# A client that is still sending sees the answer only once it was read so far.
_DRAINED = 16 << 20
# Who sends nothing holds a thread.
_IDLE_S = 60.0
# Of all fields but the file together, and of the headers of one part.
_MOST_FIELDS, _MOST_HEADERS, _EACH_FIELD = 64 << 10, 16 << 10, 512
_SHORTER = f"Send at most {_MOST_FIELDS >> 10} KiB of fields beside the file."
Kept = TypeVar("Kept")


@dataclass(frozen=True, kw_only=True)
class Form(Generic[Kept]):
    """The fields of a form, and what was made of its file; None if it has none."""

    fields: dict[str, str]
    file: Kept | None


@dataclass
class _Part:
    """A part of the body: its headers, and its bytes that are not taken yet."""

    headers: dict[str, bytes] = field(default_factory=dict)
    chunks: deque[bytes] = field(default_factory=deque)
    complete: bool = False

    @property
    def names(self) -> tuple[str, str | None]:
        """Name, and file name if it is a file."""
        _, options = parse_options_header(self.headers.get("content-disposition", b""))
        given = options.get(b"filename")
        name = options.get(b"name", b"").decode(errors="replace")
        return name, None if given is None else given.decode(errors="replace")


def body_of(request: Request) -> Iterator[bytes]:
    """The body's bytes as they come; for endpoints that run in a thread. Raises BadData where the client goes away."""
    without_limit(request)
    stream = request.stream()

    async def following() -> bytes:
        with anyio.fail_after(_IDLE_S):
            return await anext(stream)

    while True:
        try:
            chunk = anyio.from_thread.run(following)
        except StopAsyncIteration:
            return
        except ClientDisconnect:
            raise BadData("the connection ended before the body did", where="body", remedy="Send it again.") from None
        except TimeoutError:
            raise BadData(f"nothing came for {_IDLE_S:.0f} seconds", where="body", remedy="Send it again.") from None
        if chunk:
            yield chunk


def read_form(
    request: Request, name: str, keep: Callable[[str, Iterator[bytes]], Kept], discard: Callable[[Kept], None]
) -> Form[Kept]:
    """The fields of a multipart body, and what ``keep`` (file name, bytes) makes of its file part called ``name``.

    Raises BadData for a body that is malformed or ends early, after ``discard`` of what was kept; what ``keep`` raises.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise BadData("the body is not multipart/form-data", where=name, remedy=f"Send the file as the field {name!r}.")
    fields: dict[str, str] = {}
    kept: Kept | None = None
    size = 0
    body = body_of(request)
    reading = _Reading(body, options[b"boundary"])
    try:
        for part in reading.parts():
            field_name, filename = part.names
            # Names count too, and so do fields without a value.
            size += len(field_name) + _EACH_FIELD
            if size > _MOST_FIELDS:
                raise BadData("the fields of the form are too long", where="form", remedy=_SHORTER)
            if filename is None:
                value = bytearray()
                for chunk in reading.chunks(part):
                    size += len(chunk)
                    if size > _MOST_FIELDS:
                        raise BadData(
                            "the fields of the form are too long", where=field_name or "form", remedy=_SHORTER
                        )
                    value += chunk
                fields[field_name] = value.decode(errors="replace")
            elif field_name != name or kept is not None:
                raise BadData(f"{field_name!r} is one file too many", where=field_name, remedy=f"Send one: {name!r}.")
            else:
                kept = keep(filename, reading.chunks(part))
                for _ in reading.chunks(part):
                    raise BadData("the file was not read to its end", where=name, remedy="Send it again.")
    except BaseException:
        if kept is not None:
            discard(kept)
        _drain(body)
        raise
    return Form(fields=fields, file=kept)


def _drain(body: Iterator[bytes]) -> None:
    left = _DRAINED
    with suppress(BadData):
        while left > 0 and (chunk := next(body, b"")):
            left -= len(chunk)


@contextmanager
def _explained() -> Iterator[None]:
    """Tell what the parser refuses as the sender's mistake."""
    try:
        yield
    except FormParserError as error:
        raise BadData(f"the body is not a valid form ({error})", where="body", remedy="Send it again.") from error


class _Reading:
    """The parts of a body, one after the other."""

    def __init__(self, body: Iterator[bytes], boundary: bytes) -> None:
        self._body = body
        self._parts: deque[_Part] = deque()
        self._open: _Part | None = None
        self._header, self._value = bytearray(), bytearray()
        self._ended = False
        # A boundary may be too long.
        with _explained():
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": lambda data, start, end: self._grow(self._header, data[start:end]),
                    "on_header_value": lambda data, start, end: self._grow(self._value, data[start:end]),
                    "on_header_end": self._header_end,
                    "on_part_data": lambda data, start, end: self._current.chunks.append(data[start:end]),
                    "on_headers_finished": lambda: self._parts.append(self._current),
                    "on_part_end": self._part_end,
                    "on_end": self._end,
                },
            )

    def parts(self) -> Iterator[_Part]:
        """Each part once its headers are there; its chunks have to be taken before the next."""
        while self._more(lambda: bool(self._parts)):
            yield self._parts.popleft()
        if not self._ended:
            raise BadData("the body ended before its last part", where="body", remedy="Send it again.")

    def chunks(self, part: _Part) -> Iterator[bytes]:
        """The bytes of ``part`` that are left."""
        while self._more(lambda: bool(part.chunks) or part.complete) and part.chunks:
            yield part.chunks.popleft()
        if not part.complete:
            raise BadData("the body ended in the middle of a part", where="body", remedy="Send it again.")

    def _more(self, there: Callable[[], bool]) -> bool:
        """Read on until ``there``; whether it is."""
        while not there():
            chunk = next(self._body, None)
            if chunk is None:
                return False
            with _explained():
                self._parser.write(chunk)
        return True

    @property
    def _current(self) -> _Part:
        assert self._open is not None
        return self._open

    def _begin(self) -> None:
        self._open = _Part()

    def _grow(self, text: bytearray, more: bytes) -> None:
        text += more
        if len(text) > _MOST_HEADERS:
            raise BadData("a header of a part is too long", where="body", remedy="Send it again.")

    def _header_end(self) -> None:
        self._current.headers[self._header.decode(errors="replace").lower()] = bytes(self._value)
        self._header, self._value = bytearray(), bytearray()

    def _part_end(self) -> None:
        self._current.complete = True

    def _end(self) -> None:
        self._ended = True
