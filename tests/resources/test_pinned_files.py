"""Files that are known by their digest: whole and right, or not there."""

import gzip
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ft_resources import pinned_files
from ft_resources.canonical import sha256_bytes
from ft_resources.errors import BadRecipe, UserError
from ft_resources.pinned_files import PinnedFile, fetch, save

DATA = b"what was asked and what was right\n" * 5_000
PINNED = PinnedFile(sha256=sha256_bytes(DATA), size=len(DATA))


@contextmanager
def server(answers: list[str]) -> Iterator[tuple[str, list[str]]]:
    """An address whose answers go well or not, one after the other, and the list of what was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            answer = answers[len(asked) - 1]
            if answer == "silent":
                return
            data = DATA[::-1] if answer == "other" else DATA
            self.send_response({"busy": 503, "limited": 429, "gone": 404}.get(answer, 200))
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if answer == "cut" else data)

        def log_message(self, *args: object) -> None:
            pass

    here = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=here.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{here.server_port}/data", asked
    finally:
        here.shutdown()
        here.server_close()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned_files, "_WAITS_S", (0.0, 0.0))


def store(data: bytes, target: Path, *, packed: bool = False) -> io.BytesIO:
    stream = io.BytesIO(data)
    save(stream, target, PINNED, packed=packed, where="there")
    return stream


@pytest.mark.parametrize("packed", [False, True])
def test_the_right_bytes_are_kept_unpacked(tmp_path: Path, packed: bool) -> None:
    store(gzip.compress(DATA) if packed else DATA, tmp_path / "data", packed=packed)
    assert (tmp_path / "data").read_bytes() == DATA


@pytest.mark.parametrize(
    ("data", "packed", "expected"),
    [
        (DATA[:-1] + b"?", False, "its SHA-256 begins with"),
        (DATA[:-1], False, "it has only 169,999 of 170,000 bytes"),
        (b"", False, "it has only 0 of 170,000 bytes"),
        (DATA + b"?", False, "it has more than 170,000 bytes"),
        (gzip.compress(DATA + b"?"), True, "it has more than 170,000 bytes"),
        (gzip.compress(DATA)[:200], True, "it has only"),
        (DATA, True, "this is not gzip"),
        (gzip.compress(DATA)[:30] + b"?" * 900, True, "this is not gzip"),
    ],
)
def test_other_bytes_are_refused_and_nothing_stays(tmp_path: Path, data: bytes, packed: bool, expected: str) -> None:
    with pytest.raises(BadRecipe, match="there: this is not the file that was pinned") as caught:
        store(data, tmp_path / "data", packed=packed)
    assert expected in caught.value.what
    assert list(tmp_path.iterdir()) == []


def test_what_never_ends_is_not_read_to_its_end(tmp_path: Path) -> None:
    zeros = gzip.compress(bytes(50_000_000))
    stream = io.BytesIO(zeros)
    with pytest.raises(BadRecipe, match="more than"):
        save(stream, tmp_path / "data", PINNED, packed=True, where="there")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("trouble", ["busy", "limited", "cut", "silent"])
def test_a_server_in_trouble_is_asked_again(tmp_path: Path, trouble: str) -> None:
    with server([trouble, trouble, "well"]) as (url, asked):
        fetch(url, tmp_path / "data", PINNED, packed=False, remedy="Wait.")
    assert (tmp_path / "data").read_bytes() == DATA
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("trouble", "times", "expected"),
    [
        ("busy", 3, "the server answers 503"),
        ("gone", 1, "the server answers 404"),
        ("cut", 3, "it has only 85,000 of 170,000 bytes"),
        ("other", 1, "its SHA-256 begins with"),
    ],
)
def test_what_stays_wrong_is_an_error_at_once_or_after_three_times(
    tmp_path: Path, trouble: str, times: int, expected: str
) -> None:
    with server([trouble] * 4) as (url, asked), pytest.raises(UserError) as caught:
        fetch(url, tmp_path / "data", PINNED, packed=False, remedy="Wait.")
    assert expected in caught.value.what
    assert caught.value.where == url
    assert (len(asked), list(tmp_path.iterdir())) == (times, [])
