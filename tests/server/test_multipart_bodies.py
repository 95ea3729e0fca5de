"""Whatever a multipart body is like, it becomes the file it holds or leaves nothing."""

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets import api
from ft_assets.records.files import content_path, record_path
from tests.e2e.project import Project
from tests.server.test_wrong_requests import ROW
from tests.server.test_wrong_requests import http as http

PURPOSE = b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n'
FILE = b'Content-Disposition: form-data; name="file"; filename="rows.jsonl"'
WHOLE = PURPOSE + b"--b\r\n" + FILE + b"\r\n\r\n" + ROW + b"\r\n--b--\r\n"
KINDS = (
    *("multipart/form-data; boundary=b", 'multipart/form-data; boundary="b"', "multipart/form-data; boundary=c"),
    *("multipart/form-data", "multipart/form-data; boundary=", f"multipart/form-data; boundary={'b' * 500}"),
    *("multipart/mixed; boundary=b", "multipart/form-data; boundary=b; boundary=c", "text/plain"),
)
HEADERS = (
    *(
        FILE,
        FILE.replace(b"rows.jsonl", b"../rows.jsonl"),
        FILE.replace(b"rows.jsonl", b""),
        FILE + b'; name="purpose"',
    ),
    *(
        FILE.replace(b'"file"', b"file"),
        FILE.replace(b"filename=", b"filename*=utf-8''"),
        FILE.replace(b"; name", b";;name"),
    ),
    *(b'Content-Disposition: form-data; name="file"', b"Content-Disposition: form-data", b"Content-Disposition:"),
    *(b"Content-Type: multipart/mixed; boundary=c", b"Content-Transfer-Encoding: base64", b"Content-Length: 1"),
    *(b"", b": ", b"x", b"\xff: \xff", b"X: a\r\n b", b"X: " + b"x" * 20_000),
)
LINE_ENDS = st.sampled_from((b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"\r\n\r\n", b""))
ROWS = st.sampled_from((ROW, ROW * 3, b"", b"\x00\xff", b"\r\n", b"--b", b"-", b"\r\n--c\r\n"))


def lines(*given: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.tuples(*given).map(b"".join)


def part(content: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """A part of a form, with its boundary before it."""
    boundary = st.sampled_from((b"--b", b"--b", b"--b", b"--c", b"--b--", b"-b", b"--bb", b" --b"))
    header = lines(st.sampled_from(HEADERS), LINE_ENDS)
    headers = st.lists(header, max_size=3).map(b"".join) | st.just(FILE + b"\r\n")
    return lines(boundary, LINE_ENDS, headers, LINE_ENDS, content, LINE_ENDS)


NESTED = st.recursive(ROWS, lambda inner: st.lists(part(inner), min_size=1, max_size=3).map(b"".join), max_leaves=4)
FORMS = lines(
    st.sampled_from((PURPOSE, PURPOSE, b"", b"preamble\r\n" + PURPOSE)),
    st.lists(part(NESTED), max_size=3).map(b"".join),
    st.sampled_from((b"--b--\r\n", b"--b--\r\n", b"--b--", b"--b", b"--c--\r\n", b"", b"--b--\r\nepilogue")),
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A good body that is cut, doubled in part, or has another byte."""
    at = draw(st.integers(0, len(WHOLE) - 1))
    other = bytes([draw(st.integers(0, 255))])
    return draw(st.sampled_from((WHOLE[:at], WHOLE[:at] + WHOLE, WHOLE[:at] + other + WHOLE[at + 1 :])))


@pytest.mark.statistics
@given(body=FORMS | damaged(), kind=st.sampled_from(KINDS) | st.just(KINDS[0]))
def test_a_multipart_body_becomes_the_file_it_holds_or_leaves_nothing(
    project: Project, http: httpx.Client, body: bytes, kind: str
) -> None:
    response, store = http.post("/files", content=body, headers={"content-type": kind}), project.store
    kept = {entry.path: store.get(entry.path) for entry in store.entries("acme")}
    for each in list(api.file_ids("acme", store=store)):
        api.delete_file("acme", each, store=store)
        content = kept.pop(content_path("acme", each))
        assert kept.pop(record_path("acme", each))
        assert (response.json()["id"], response.json()["bytes"]) == (f"file-{each}", len(content))
        assert content
        assert content in body
    assert not kept
    assert response.status_code in (200, 400), response.text


def test_a_body_that_is_cut_anywhere_before_its_end_leaves_nothing(project: Project, http: httpx.Client) -> None:
    for end in range(0, len(WHOLE) - 4, 7):
        response = http.post("/files", content=WHOLE[:end], headers={"content-type": KINDS[0]})
        assert response.status_code == 400
    assert list(project.store.entries("acme")) == []
