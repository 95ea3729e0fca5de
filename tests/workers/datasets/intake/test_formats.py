"""The same rows from every format, as JSON lines."""

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.settings.dataset.policy import TextSettings
from ft_assets.workers.datasets.intake.arrow_json import to_lines
from ft_assets.workers.datasets.intake.spool import Spool, spool
from tests.workers.datasets.intake.builders import good_parquet, parquet, zstd
from tests.workers.datasets.intake.pdfs import make_pdf

ROWS: list[dict[str, Any]] = [
    {"prompt": f'What is "{n}",\n\\ {{[é😀]}}?', "completion": f"It is\r\n{n}.\t" + "x" * n} for n in range(300)
]
JSONL = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()


def csv_bytes(delimiter: str) -> bytes:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, ["prompt", "completion"], delimiter=delimiter)
    writer.writeheader()
    writer.writerows(ROWS)
    return buffer.getvalue().encode()


def read(folder: Path, name: str, data: bytes, text: TextSettings | None = None) -> Spool:
    (folder / name).write_bytes(data)
    return spool(folder / name, name, folder / "out", role="upload", text=text or TextSettings())


def rows_of(spooled: Spool) -> list[Any]:
    return [json.loads(line) for line in spooled.path.read_bytes()[spooled.start :].splitlines()]


FORMS: dict[str, bytes] = {
    "data.jsonl": JSONL,
    "data.NDJSON": b"\xef\xbb\xbf" + JSONL,
    "data.json": json.dumps(ROWS, indent=2).encode(),
    "object.json": json.dumps({"v": [1, 2], "rows": ROWS, "end": {"n": [{}][1:]}}, indent=1).encode(),
    "lines.json": JSONL,
    "data.csv": b"\xef\xbb\xbf" + csv_bytes(","),
    "excel.csv": b"\xef\xbb\xbf" + csv_bytes(";"),
    "data.tsv": csv_bytes("\t"),
    "data.parquet": parquet(pa.Table.from_pylist(ROWS), row_group_size=100),
}


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        *((name, "") for name in FORMS),
        *(("data.json", ".gz"), ("data.jsonl", ".zst"), ("data.parquet", ".gz"), ("data.csv", ".zst")),
        *(pytest.param(name, packed, marks=pytest.mark.long) for name in FORMS for packed in (".gz", ".zst")),
    ],
)
def test_every_format_gives_the_same_rows_in_order(tmp_path: Path, name: str, packed: str) -> None:
    data = FORMS[name]
    data = {"": lambda: data, ".gz": lambda: gzip.compress(data), ".zst": lambda: zstd(data)}[packed]()
    spooled = read(tmp_path, name + packed, data)
    assert rows_of(spooled) == ROWS
    assert (spooled.name, spooled.role) == (name + packed, "upload")


def test_plain_json_lines_are_not_copied(tmp_path: Path) -> None:
    for name, start in (("data.jsonl", 0), ("lines.json", 0), ("data.NDJSON", 3)):
        spooled = read(tmp_path, name, FORMS[name])
        assert (spooled.path, spooled.start) == (tmp_path / name, start)


def test_gzip_members_after_one_another_are_one_file(tmp_path: Path) -> None:
    half = JSONL.index(b"\n", len(JSONL) // 2)
    data = gzip.compress(JSONL[:half]) + gzip.compress(b"") + gzip.compress(JSONL[half:]) + b"\0" * 512
    assert rows_of(read(tmp_path, "data.jsonl.gz", data)) == ROWS


def test_parquet_keeps_lists_structs_and_nulls(tmp_path: Path) -> None:
    call = [{"id": "1", "function": {"name": "f", "arguments": '{"a": [1]}'}}]
    rows = [
        {
            "messages": [{"role": "user", "content": "hi\n"}, {"role": "assistant", "content": "", "calls": call}],
            "n": 1,
        },
        {"messages": [], "n": None},
        {"messages": None, "n": 2},
    ]
    rows = [json.loads(json.dumps(row)) for row in rows]
    assert rows_of(read(tmp_path, "data.parquet", parquet(pa.Table.from_pylist(rows)))) == rows


def filled_up() -> list[dict[str, Any]]:
    """Rows whose structs differ, as two tools do, and in which every null is meant."""

    def row(called: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
        turns = [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": called}}]},
        ]
        return {"messages": turns, "tools": [{"name": "f", "parameters": parameters}], "kind": None}

    return [
        row({"city": "Oslo"}, {"type": "object", "properties": {"city": {"type": "string"}}}),
        row({"a": 1, "b": [None, 2]}, {"type": "object", "properties": {"a": {"enum": [1, None]}}}),
        row({}, {"type": "object"}),
    ]


def test_nulls_that_fill_up_structs_are_taken_away_and_those_of_lists_columns_and_json_texts_stay(
    tmp_path: Path,
) -> None:
    rows = filled_up()
    table = pa.Table.from_pylist(rows)
    assert "'city': 'Oslo', 'a': None" in str(table.to_pylist())
    as_categories = pa.array(
        [{"to": "x", "cc": None}, {"to": None, "cc": "y"}, {}],
        pa.struct([("to", pa.dictionary(pa.int8(), pa.string())), ("cc", pa.string())]),
    )
    texts = [json.dumps(row["tools"], indent=1) for row in rows]
    as_json = pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts))
    table = (
        table.append_column("who", as_categories).append_column("text", pa.array(texts)).append_column("json", as_json)
    )
    who: list[dict[str, Any]] = [{"to": "x"}, {"cc": "y"}, {}]
    assert rows_of(read(tmp_path, "data.parquet", parquet(table))) == [
        {**row, "who": each, "text": text, "json": row["tools"]}
        for row, each, text in zip(rows, who, texts, strict=True)
    ]


def test_columns_of_parquet_without_a_json_form_are_not_read_where_nothing_is_learned_from_them(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": pa.array([bytes(16)] * 2, pa.uuid()),
            "a.b": pa.array(["x", "y"]),
            "a": [{"b": b"1"}, None],
            "prompt": ["a", "b"],
            "facts": pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"n": 1}', None])),
        }
    )
    assert rows_of(read(tmp_path, "data.parquet", parquet(table))) == [
        {"id": {}, "a.b": "x", "a": {}, "prompt": "a", "facts": {"n": 1}},
        {"id": {}, "a.b": "y", "a": {}, "prompt": "b", "facts": None},
    ]


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                'a "name"\n': st.none() | st.text(st.characters(exclude_categories=["Cs"])),
                "turns": st.none() | st.lists(st.none() | st.fixed_dictionaries({"role": st.text('ab\\"\x01')})),
                "number": st.none() | st.integers(-(2**60), 2**60),
                "share": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            }
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 2),
)
def test_arrow_rows_come_out_as_the_json_that_python_writes(rows: list[dict[str, Any]], start: int) -> None:
    kinds = pa.schema(
        [
            ('a "name"\n', pa.string()),
            ("turns", pa.list_(pa.struct([("role", pa.string())]))),
            ("number", pa.int64()),
            ("share", pa.float64()),
        ]
    )
    batch = pa.RecordBatch.from_pylist(rows, schema=kinds).slice(start)
    assert [json.loads(line) for line in to_lines(batch).to_pylist()] == rows[start:]


@pytest.mark.parametrize("start", [0, 1, 2])
def test_lists_of_a_fixed_size_may_be_null(start: int) -> None:
    rows: list[list[int | None] | None] = [[1, 2], None, [3, None], None]
    batch = pa.RecordBatch.from_arrays([pa.array(rows, pa.list_(pa.int8(), 2))], ["pair"]).slice(start)
    assert [json.loads(line)["pair"] for line in to_lines(batch).to_pylist()] == rows[start:]


@pytest.mark.parametrize("start", [0, 1, 2])
def test_maps_of_texts_are_objects_whose_nulls_stay(start: int) -> None:
    """As Spark writes the arguments of calls; a map has only what its row has."""
    kind = pa.map_(pa.string(), pa.struct([("n", pa.int8()), ("of", pa.map_(pa.string(), pa.string()))]))
    rows: list[dict[str, Any] | None] = [{"a": {"n": 1}, "b": None}, None, {}, {"c": {"of": {"x": None, "y": "z"}}}]
    pairs = [None if row is None else list(row.items()) for row in rows]
    batch = pa.RecordBatch.from_arrays([pa.array(pairs, kind)], ["map"]).slice(start)
    assert [json.loads(line)["map"] for line in to_lines(batch).to_pylist()] == rows[start:]


def test_reading_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    for name, data in (("data.parquet", good_parquet()), ("book.txt", JSONL), ("data.csv", csv_bytes(","))):
        first, second = (read(folder, name, data) for folder in (tmp_path, tmp_path / "again"))
        assert first.path.read_bytes() == second.path.read_bytes()
        assert first.source_sha256 == second.source_sha256


def test_pieces_of_a_pdf_know_the_page_they_start_on(tmp_path: Path) -> None:
    pages = ["Chapter 1", *(f"This is what page {n} says.\nIt says it twice." for n in range(2, 8))]
    spooled = read(tmp_path, "book.pdf", make_pdf(pages), TextSettings(chunk_characters=200))
    rows = rows_of(spooled)
    assert rows[0]["text"].startswith("Chapter 1\n\nThis is what page 2 says.\nIt says it twice.")
    assert [row["page"] for row in rows] == sorted(row["page"] for row in rows)
    for row in rows[1:]:
        assert row["text"].startswith(f"This is what page {row['page']} says.")
    assert len({row["source"] for row in rows}) == 1
    assert rows[0]["source"].startswith("book.pdf#")
