"""The fast path gives exactly what the reference gives, on plain rows and on hostile ones."""

import json
import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.workers.datasets.forms.fast import read_plain
from ft_assets.workers.datasets.forms.parse import Parsed, parse_lines, parse_slowly
from ft_assets.workers.datasets.forms.texts import clean, is_blank

SETTINGS = [
    FormSettings(),
    FormSettings(group_by="source"),
    FormSettings(group_by="id"),
    FormSettings(group_by="prompt"),
    FormSettings(form="alpaca", fields=(("output", "text"),)),
    FormSettings(form="prompt/completion", fields=(("completion", "answer"), ("prompt", "question"))),
    FormSettings(form="text"),
    FormSettings(form="preference"),
    FormSettings(fields=(("kind", "id"), ("text", "output"))),
    FormSettings(fields=(("weight", "x"),)),
]


def ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def assert_same(lines: bytes, form: FormSettings, ended: bool = True) -> Parsed:
    fast, slow = parse_lines(lines, form, ended=ended), parse_slowly(lines, form, ended=ended)
    fast.examples.validate(full=True)
    assert fast.bad.to_pylist() == slow.bad.to_pylist()
    assert fast.examples.to_pylist() == slow.examples.to_pylist()
    assert ipc(fast.examples) == ipc(slow.examples)
    for name in ("rows", "forms", "unused", "normalized", "unanswered"):
        assert getattr(fast, name) == getattr(slow, name), name
    return fast


# Pieces of JSON strings as they stand in a file, escapes and all; the last ones are wrong.
_piece = st.sampled_from([
    "a", "Hello", " ", "\u00e9", "e\u0301", "\u0301", "\u0323\u0307", "\u0307\u0323", "\u4f60", "\u1100\u1161",
    "\uac00\u11a8", "\ud55c", "\u200d", "\u200b", "\u3000", "\u00a0", "\ufeff", "\U0001f600", "\u0915\u094d",
    "\u0e19\u0e49", "\u212b", "\x7f", "\x85", "\u2028", "\ufffe", "\\n", "\\t", "\\r", "\\r\\n", '\\"', "\\\\", "\\/",
    "\\b", "\\f", "\\u0000", "\\u000a", "\\u00e9", "\\u0301", "\\u0041", "\\ud83d\\ude00", "\\ufeff", "\\u200b",
    "\\u0085", "\\n\\nHuman: ", "\\n\\nAssistant: ", "system", "user", "\\ud83d", "\\ude00", "\\uD83D\\u0041", "\\x",
    "\\u12", "\x00", "\t", "\x1f", "\\",
])  # fmt: skip
_string = st.lists(_piece, max_size=4).map(lambda pieces: '"' + "".join(pieces) + '"')
_good_string = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).map(
    lambda text: json.dumps(text, ensure_ascii=False)
)
_scalar = st.sampled_from(
    [
        *("null", "true", "false", "0", "7", "-3", "-0", "01", "1.5", "1.", ".5", "1e5", "1e999", "NaN", "-Infinity"),
        *("12345678901234567890", "9" * 5000, "2147483648", "123456789", "nul", "truE", "tru", "", "[]", "{}", '"x'),
        *('{"a": {"a": 1, "a": 2}}', "[1, [2]]"),
    ]
)
_role = st.sampled_from(
    ['"user"', '"assistant"', '"system"', '"human"', '"gpt"', '"tool"', '"us\\u0065r"', "null", '"developer"']
)
_space = st.sampled_from(["", "", "", " ", "\t", "\r", "  ", "\x0b"])


@st.composite
def _object(draw: st.DrawFn, pairs: list[tuple[str, str]]) -> str:
    fields = [f'"{key}"{draw(_space)}:{draw(_space)}{value}{draw(_space)}' for key, value in pairs]
    return "{" + draw(_space) + ("," + draw(_space)).join(fields) + "}"


@st.composite
def _turns(draw: st.DrawFn) -> str:
    if draw(st.booleans()):
        role, content = draw(st.sampled_from([("role", "content"), ("from", "value"), ("from", "content")]))
        speakers = draw(st.sampled_from([("user", "assistant"), ("human", "gpt"), ("system", "user", "assistant")]))
        text = _good_string if draw(st.booleans()) else _string
        turns = [draw(_object(draw(st.permutations([(role, f'"{one}"'), (content, draw(text))])))) for one in speakers]
    else:
        field = st.sampled_from(["role", "content", "from", "value", "name", "weight"])
        pair = st.tuples(field, _role | _string | _scalar)
        turns = [draw(_object(draw(st.lists(pair, max_size=3)))) for _ in range(draw(st.integers(0, 3)))]
    return "[" + draw(_space) + ("," + draw(_space)).join(turns) + draw(_space) + "]"


_FORMS = [
    names.split()
    for names in (
        *("prompt completion", "prompt chosen rejected", "instruction output", "instruction input output", "text"),
        *("text source page", "messages", "conversations", "question answer"),
    )
]
_EXTRA = [
    "kind", "source", "page", "id", "system", "tools", "text", "input", "prompt", "na\u00efve", "a b", "x", "messages",
    "chosen",
]  # fmt: skip


@st.composite
def rows(draw: st.DrawFn) -> str:
    names = draw(st.sampled_from(_FORMS)) + draw(st.lists(st.sampled_from(_EXTRA), max_size=3))
    if draw(st.booleans()):
        names = list(dict.fromkeys(names))
    wild = draw(st.booleans())
    pairs = []
    for name in draw(st.permutations(names)):
        if name in ("messages", "conversations"):
            value = draw(_turns() | _scalar) if wild else draw(_turns())
        elif name == "page":
            value = draw(st.integers(-1, 40).map(str) | _scalar)
        else:
            value = draw(_string | _good_string | _scalar | _turns()) if wild else draw(_good_string)
        pairs.append((name, value))
    return draw(_object(pairs)) + draw(st.sampled_from(["", "", "", "\r", " ", "x", "{}"]))


_line = rows() | st.sampled_from(["", " ", "\r", "\x0b", "[]", "{}", "null", '{"a":', "[" * 200])


@pytest.mark.statistics
@given(st.lists(_line, max_size=4), st.sampled_from(SETTINGS), st.booleans(), st.booleans())
@example(['{"prompt":"a","completion":"b","prompt":"c"}'], SETTINGS[0], True, True)
@example(['{"messages":[],"messages":[]}'], SETTINGS[0], True, True)
@example(['{"text":"a","page":1,"source":"\\ud800"}'], SETTINGS[0], True, True)
def test_the_fast_path_equals_the_reference(lines: list[str], form: FormSettings, last: bool, ended: bool) -> None:
    data = "\n".join(lines).encode() + (b"\n" if last else b"")
    assert_same(data, form, ended)


@given(st.lists(rows(), min_size=1, max_size=3), st.data())
def test_so_it_does_where_bytes_are_damaged(lines: list[str], data: st.DataObject) -> None:
    whole = bytearray("\n".join(lines).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(whole) - 1))
        if data.draw(st.booleans()):
            whole[place] = data.draw(st.integers(0, 255))
        else:
            del whole[place:]
            whole += b"x"
    assert_same(bytes(whole), SETTINGS[0], ended=False)


@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_any_text_is_cleaned_as_the_reference_cleans_it(text: str) -> None:
    line = json.dumps({"text": text}, ensure_ascii=False).encode()
    parsed = assert_same(line, FormSettings())
    assert parsed.examples.column("text").to_pylist() == ([] if is_blank(clean(text)) else [clean(text)])


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "What is 2?", "completion": "Two."},
        {"messages": [{"role": "user", "content": "Hi\n"}, {"role": "assistant", "content": "Servus, \u00dcberall"}]},
        {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}], "id": "7"},
        {"instruction": "Say it", "input": "", "output": "it"},
        {"prompt": "a", "chosen": "b", "rejected": "c"},
        {"text": "\u0928\u092e\u0938\u094d\u0924\u0947", "source": "book", "page": 4},
    ],
)
def test_plain_rows_take_the_fast_path(row: dict[str, Any]) -> None:
    for ascii_only in (True, False):
        lines = (json.dumps(row, ensure_ascii=ascii_only) + "\r\n").encode()
        plain = read_plain(lines.splitlines(), FormSettings())
        assert ([batch.num_rows for batch in plain.examples], plain.left) == ([1], [])
        assert_same(lines, FormSettings())


@pytest.mark.statistics
@pytest.mark.parametrize("marks", ["\u0301\u0323", "\u0f73", "\u0f72\u0f73", "\u0344"])
def test_a_text_that_nfc_would_take_hours_for_is_refused_at_once(marks: str) -> None:
    """Sorting marks takes a time that grows with the square of their number: 40,000 took 20 s, a row may have 5 m."""
    hostile = {"prompt": "Hi", "completion": "a" + marks * 40_000, "system": "e" + marks * 40_000}
    rows = [{"prompt": f"Hi {place}", "completion": "\u043f" + "\u0301" * 30, "system": ""} for place in range(40)]
    lines = [json.dumps(row, ensure_ascii=False).encode() for row in (*rows, hostile)]
    started = time.process_time()
    parsed = assert_same(b"\n".join(lines), FormSettings())
    assert time.process_time() - started < 1.0
    assert parsed.examples.num_rows == len(rows)
    (bad,) = parsed.bad.to_pylist()
    assert (bad["row"], bad["reason"]) == (41, "bad_text")


def test_every_code_point_alone_and_after_a_letter_is_cleaned_alike() -> None:
    points = [chr(point) for point in range(0x3400) if not 0xD800 <= point < 0xE000]
    points += [chr(point) for point in range(0xA000, 0x11A00, 1) if not 0xAC00 <= point < 0xE000]
    lines = "\n".join(json.dumps({"text": f"{point}x{point}"}, ensure_ascii=False) for point in points if point != "\n")
    assert_same(lines.encode(), FormSettings())


ODD_ROWS: list[dict[str, Any]] = [
    {"messages": [{"role": "user", "content": "Hi", "name": "Ann"}, {"role": "assistant", "content": "Hello"}]},
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "tool", "content": "Hello"}]},
    {"messages": [{"role": "user", "content": " "}, {"role": "assistant", "content": "Hello"}]},
    {"messages": [{"role": ["user"], "content": "Hi"}, {"role": "assistant", "content": None}]},
    {"messages": [{"role": "user", "content": "e\u0301\r\n"}, {"role": "assistant", "content": "\x7fHello"}]},
    {"messages": []},
    {"messages": "Hi", "tools": [{"name": "look"}]},
    {"text": "Hi", "source": "book", "page": 10**20},
    {"text": "Hi", "meta": [[[[1]]]]},
    {"instruction": "Say", "input": "it", "output": "it", "system": ""},
    {"prompt": "a", "chosen": "b", "rejected": "b"},
]


@pytest.mark.parametrize("form", [FormSettings(), FormSettings(group_by="id")])
def test_odd_rows_among_many_plain_ones_are_read_as_the_reference_reads_them(form: FormSettings) -> None:
    rows = [
        {"messages": [{"role": "user", "content": f"Hi {place}"}, {"role": "assistant", "content": "Hello"}]}
        for place in range(400)
    ]
    for place, row in enumerate(ODD_ROWS * 2):
        rows.insert(17 * place, row)
    lines = [json.dumps({**row, "id": [place, str(place), None, 2**70][place % 4]}) for place, row in enumerate(rows)]
    deep = '{"text": "Hi", "meta": ' + "[" * 99 + "]" * 99 + "}"
    deeper = '{"text": "Hi", "meta": ' + "[" * 100 + "]" * 100 + "}"
    parsed = assert_same(
        "\n".join([*lines, deep, deeper, *(f'{{"x{place}": 1}}' for place in range(40))]).encode(), form
    )
    assert parsed.forms["messages"] > 180


@pytest.mark.parametrize(
    ("line", "form", "fields"),
    [
        (b'{"prompt":"a","completion":"b"}', "auto", ()),
        (b'{"":"x","b":"y","c":"z"}', "prompt/completion", (("prompt", ""), ("completion", "b"), ("system", "c"))),
        (b'{"messages":[' + b"{}," * 50 + b"{}]}", "auto", ()),
        (b'{"t":"x"}', "text", (("text", "t"),)),
    ],
)
def test_the_shortest_rows_have_room(line: bytes, form: str, fields: tuple[tuple[str, str], ...]) -> None:
    settings = FormSettings(form=form, fields=fields)
    lines = (line + b"\n") * 2000
    assert parse_lines(lines, settings, ended=True).examples.equals(parse_slowly(lines, settings, ended=True).examples)
