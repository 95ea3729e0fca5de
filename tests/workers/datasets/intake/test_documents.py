"""Word, HTML and Excel files: their text or rows in order; hostile ones are refused in our words."""

import datetime as dt
import gzip
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pytest

from ft_assets.settings.dataset.policy import TextSettings
from ft_assets.workers.datasets.intake.limits import ReadLimits
from ft_assets.workers.datasets.intake.spool import Spool, spool
from ft_resources.errors import BadData

pytestmark = pytest.mark.subprocess
PAGE = """<!DOCTYPE html><html><head><title>Not text</title><style>p { color: red }</style></head><body>
<nav><a href="/">Home</a></nav><script>alert("no")</script>
<h1>Kettles</h1><p>Boil <b>the</b> water,<br>then wait.</p><img src="a.png">
<ul><li>one</li><li>two</li></ul><table><tr><th>kind</th><th>litres</th></tr><tr><td>small</td><td>1</td></tr></table>
<pre>if hot:
    pour()</pre>after it<footer>Imprint</footer></body></html>"""


def read(
    folder: Path, name: str, data: bytes, limits: ReadLimits | None = None, text: TextSettings | None = None
) -> Spool:
    (folder / name).write_bytes(data)
    text = text or TextSettings(chunk_characters=4000)
    return spool(folder / name, name, folder / "out", role="upload", text=text, limits=limits)


def rows_of(spooled: Spool) -> list[dict[str, Any]]:
    return [json.loads(line) for line in spooled.path.read_bytes().splitlines()]


def texts(spooled: Spool) -> str:
    return "\n\n".join(row["text"] for row in rows_of(spooled))


def _picture() -> bytes:
    """One white pixel as PNG."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(b"\0\xff")) + part(b"IEND", b"")


def word(change: Callable[[Any], None]) -> bytes:
    document, buffer = docx.Document(), io.BytesIO()
    change(document)
    document.save(buffer)
    return buffer.getvalue()


def excel(*sheets: list[list[Any]]) -> bytes:
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    book.remove(book.active)
    for number, rows in enumerate(sheets):
        sheet = book.create_sheet(f"sheet {number}")
        for row in rows:
            sheet.append(row)
    book.save(buffer)
    return buffer.getvalue()


def _manual(document: Any) -> None:
    document.add_heading("Kettles", 1)
    document.add_paragraph("Boil the water.")
    table = document.add_table(rows=2, cols=2)
    for cell, said in zip(table._cells, ("kind", "litres", "small", "1"), strict=True):
        cell.text = said
    document.add_picture(io.BytesIO(_picture()))
    document.add_paragraph("Then wait.")


def test_a_word_document_gives_its_headings_paragraphs_and_tables_in_order(tmp_path: Path) -> None:
    spooled = read(tmp_path, "manual.docx", word(_manual))
    assert texts(spooled) == "Kettles\n\nBoil the water.\n\nkind | litres\nsmall | 1\n\nThen wait."
    assert spooled.pictures == 1
    assert {(row["page"], row["source"].partition("#")[0]) for row in rows_of(spooled)} == {(0, "manual.docx")}


@pytest.mark.parametrize("name", ["page.html", "page.HTM"])
def test_an_html_page_gives_its_text_without_what_stands_around_it(tmp_path: Path, name: str) -> None:
    spooled = read(tmp_path, name, PAGE.encode())
    assert texts(spooled) == (
        "Kettles\n\nBoil the water, then wait.\n\none\n\ntwo\n\nkind | litres\n\nsmall | 1\n\nif hot:\n    pour()"
        "\n\nafter it"
    )
    assert spooled.pictures == 1


GUIDE = """# Kettles ![logo][Logo]

[![build](https://ci.example/a_(b).svg)](https://ci.example) Boil the water, ![a [hot] pot](pot.png "Hot")then wait.
![alone](alone.png)
Pour ![jug](jug.png) <img src="pour.png" alt="pouring"> slowly.

Write `![alt](url)` for a picture, \\![no](picture), wow![1], or [a link](b.png).

```md
![in a listing](listing.png)
```

![][image1]

[logo]: logo.png
[image1]: <data:image/png;base64,DATA>
"""


@pytest.mark.parametrize("name", ["guide.md", "guide.Markdown", "guide.md.gz"])
def test_pictures_of_markdown_are_left_out_and_counted_as_those_of_other_documents(tmp_path: Path, name: str) -> None:
    # A photograph in the text itself is a line of several MiB.
    data = GUIDE.replace("DATA", "iVBORw0KGgo" * 200_000).encode()
    spooled = read(tmp_path, name, gzip.compress(data) if name.endswith("gz") else data)
    assert texts(spooled) == (
        "# Kettles\n\nBoil the water, then wait.\nPour slowly.\n\n"
        "Write `![alt](url)` for a picture, \\![no](picture), wow![1], or [a link](b.png).\n\n"
        "```md\n![in a listing](listing.png)\n```\n\n[logo]: logo.png"
    )
    assert spooled.pictures == 7


def test_a_plain_text_says_what_it_says_though_it_looks_like_markdown(tmp_path: Path) -> None:
    spooled = read(tmp_path, "guide.txt", GUIDE.encode())
    assert (texts(spooled).count("!["), spooled.pictures) == (GUIDE.count("!["), 0)


def test_rows_of_an_excel_file_are_those_of_its_csv(tmp_path: Path) -> None:
    rows = [
        ["prompt", "completion", "when"],
        ["What is 2 + 2?", 4, dt.datetime(2026, 5, 1)],
        ["Is it so?", True, None],
        [None, None, None],
        ["a\nb", 0.5, dt.datetime(2026, 5, 1, 12)],
    ]
    spooled = read(tmp_path, "data.xlsx", excel(rows, [], [rows[0], ["more", "x", ""]]))
    assert rows_of(spooled) == [
        {"prompt": "What is 2 + 2?", "completion": "4", "when": "2026-05-01"},
        {"prompt": "Is it so?", "completion": "TRUE", "when": ""},
        {"prompt": "a\nb", "completion": "0.5", "when": "2026-05-01T12:00:00"},
        {"prompt": "more", "completion": "x", "when": ""},
    ]


def _archive(*members: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return buffer.getvalue()


_LAUGHS = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;">]><a>&c;</a>'
_BOMB = _archive(("word/document.xml", b" " * (64 << 20)))


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("a.docx", b"plain words, no archive", "this is not a Word file"),
        ("a.docx", _archive(("readme.txt", b"hi")), "this is a ZIP file, not Word"),
        ("a.xlsx", word(_manual), "this is a ZIP file, not Excel"),
        ("a.docx", _archive(("word/document.xml", _LAUGHS)), "it declares XML entities"),
        ("a.docx", _BOMB, "unpacks to more than 200 times its size"),
        ("a.docx", _archive(("word/document.xml", b"<a/>")), "the Word file is damaged"),
        ("a.docx", word(_manual)[:-200], "its archive cannot be read"),
        ("a.docx", word(lambda document: None), "the document has no text"),
        ("a.html", b"<html><body><script>1</script></body></html>", "the page has no text"),
        ("a.html", b"<p>caf\xe9</p>", "byte 7 (0xe9) is not UTF-8"),
        ("a.html", b"<div>" * 2000 + b"deep", "nested more than"),
        ("a.xlsx", excel([["a", "a"], [1, 2]]), "column 2 has the name of an earlier one"),
        ("a.xlsx", excel([["a"], [1, 2]]), "a value beyond the last named column"),
        ("a.xlsx", excel([["a"], [1]], [["b"], [2]]), "have different columns"),
        ("a.xlsx", excel([["a", "b"]]), "the file has no rows"),
        ("a.txt", PAGE.encode(), "this is an HTML page"),
    ],
)
def test_what_cannot_be_read_is_refused_in_our_words(tmp_path: Path, name: str, data: bytes, told: str) -> None:
    with pytest.raises(BadData) as refused:
        read(tmp_path, name, data)
    assert told in refused.value.what
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def printed(*tables: list[list[str]], plain: int = 0) -> bytes:
    """A PDF with a page of ruled tables, whose program wrote them before the texts around them, and pages of text."""
    import matplotlib.pyplot as plt
    from matplotlib.backends.backend_pdf import PdfPages

    buffer = io.BytesIO()
    with PdfPages(buffer) as pdf:
        for number in range(1 + plain):
            figure = plt.figure(figsize=(6, 8))
            for place, cells in enumerate(tables if not number else ()):
                axes = figure.add_axes((0.1, 0.7 - 0.4 * place, 0.8, 0.15))
                axes.axis("off")
                axes.table(cellText=cells, loc="center")
                figure.text(0.1, 0.9 - 0.4 * place, f"Above table {place + 1} stands this.")
            figure.text(0.1, 0.1, f"Page {number + 1} ends here.")
            pdf.savefig(figure)
            plt.close(figure)
    return buffer.getvalue()


TABLES = TextSettings(chunk_characters=4000, pdf="tables")
PRICES = [["kind", "holds", "price"], ["small", "one litre", "10"], ["large", "two litres", "20"]]


def test_tables_of_a_pdf_are_rows_of_cells_between_the_texts_around_them(tmp_path: Path) -> None:
    found = read(tmp_path, "prices.pdf", printed(PRICES, [["a", "b"], ["1", ""]], plain=1), text=TABLES)
    assert texts(found).split("\n\n") == [
        "Above table 1 stands this.",
        "kind | holds | price\nsmall | one litre | 10\nlarge | two litres | 20",
        "Above table 2 stands this.",
        "a | b\n1 |",
        "Page 1 ends here.",
        "Page 2 ends here.",
    ]


def test_a_pdf_is_read_as_before_unless_tables_are_asked_for(tmp_path: Path) -> None:
    assert "kind holds price" in texts(read(tmp_path, "prices.pdf", printed(PRICES)))


def test_a_pdf_without_tables_reads_the_same_either_way(tmp_path: Path) -> None:
    data = printed(plain=2)
    assert texts(read(tmp_path, "a.pdf", data, text=TABLES)) == texts(read(tmp_path, "b.pdf", data))


def test_a_pdf_that_only_one_library_opens_is_read_without_its_tables(tmp_path: Path) -> None:
    # PDFium finds the objects again where the table of their places is damaged.
    data = printed(PRICES).replace(b"startxref", b"startxxxx")
    assert "small" in texts(read(tmp_path, "prices.pdf", data, text=TABLES))


def sheet(*placed: tuple[float, float, str], table: tuple[float, float, float, float] | None = None) -> bytes:
    """A page of a PDF with texts at these places, in shares of its width and height, written in this order."""
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(8, 11))
    for x, y, text in placed:
        figure.text(x, y, text, fontsize=9)
    if table:
        axes = figure.add_axes(table)
        axes.axis("off")
        axes.table(cellText=PRICES, loc="center")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="pdf")
    plt.close(figure)
    return buffer.getvalue()


TITLES = [(0.1, 0.95, "First, a title that stands across both columns, as titles do on a page"),
          (0.1, 0.50, "Then another title that stands across both of the columns of this page"),
          (0.5, 0.03, "17")]  # fmt: skip


def lines(part: int, side: str, words: str = "words to fill the line") -> list[tuple[float, float, str]]:
    """The lines of a column below a title."""
    left, top = 0.08 if side == "L" else 0.54, 0.92 - 0.45 * part
    return [(left, top - 0.018 * number, f"{side}{part}{number:02} {words}") for number in range(20)]


def across(left: list[tuple[float, float, str]], right: list[tuple[float, float, str]]) -> list[Any]:
    """Two columns, written a line of each at a time."""
    return [each for both in zip(left, right, strict=True) for each in both]


def order_of(found: Spool) -> list[str]:
    """Names of the lines of a page, such as R102, with the titles, tables and page numbers between them."""
    named = re.findall(r"[LR]\d{3}|First|Then|kind|^17$", texts(found), re.MULTILINE)
    return [name for number, name in enumerate(named) if not number or name[:2] != named[number - 1][:2]]


COLUMNS = [*TITLES, *across(lines(0, "L"), lines(0, "R")), *across(lines(1, "L"), lines(1, "R"))]


def test_columns_of_a_pdf_are_read_one_after_the_other_though_it_was_written_across_them(tmp_path: Path) -> None:
    found = read(tmp_path, "paper.pdf", sheet(*COLUMNS))
    assert order_of(found) == ["First", "L000", "R000", "Then", "L100", "R100", "17"]
    # Nothing is lost, and no line is cut or joined with another.
    assert sorted(texts(found).replace("\n\n", "\n").splitlines()) == sorted(text for _, _, text in COLUMNS)


def test_three_columns_written_line_by_line_are_read_one_after_the_other(tmp_path: Path) -> None:
    columns = [
        [(0.05 + 0.31 * column, 0.9 - 0.02 * line, f"{name}{line:02} words to fill the line") for line in range(20)]
        for column, name in enumerate("abc")
    ]
    found = texts(read(tmp_path, "paper.pdf", sheet(*(each for row in zip(*columns, strict=True) for each in row))))
    assert re.findall(r"[abc]\d\d", found) == [text[:3] for column in columns for _, _, text in column]


def test_columns_of_a_script_from_right_to_left_begin_at_the_right(tmp_path: Path) -> None:
    left, right = "שמאל שלום עולם טוב ויפה מאד", "ימין שלום עולם טוב ויפה מאד"
    placed = [(x, y, right if x > 0.5 else left) for x, y, _ in across(lines(0, "L"), lines(0, "R"))]
    assert texts(read(tmp_path, "paper.pdf", sheet(*placed))).splitlines() == [right] * 20 + [left] * 20


@pytest.mark.parametrize(
    "placed",
    [
        # In columns, and written so.
        [*TITLES, *lines(0, "L"), *lines(0, "R")],
        # A form: each line is a name and its value.
        across([(x, y, f"{'name' * (n % 4 + 1)} {n}") for n, (x, y, _) in enumerate(lines(0, "L"))], lines(0, "R")),
        # One column.
        [(x, y, f"{text} and {text}, which goes on to the other side") for x, y, text in lines(0, "L")],
    ],
)
def test_a_page_that_is_not_written_across_columns_stays_as_it_is(tmp_path: Path, placed: list[Any]) -> None:
    import pypdfium2

    data = sheet(*placed)
    with pypdfium2.PdfDocument(data) as document:
        written = document[0].get_textpage().get_text_range()
    found = texts(read(tmp_path, "page.pdf", data))
    assert found.split() == written.split()


def test_a_table_in_a_column_is_read_in_its_column_and_nothing_beside_it_is_lost(tmp_path: Path) -> None:
    right = [each for number, each in enumerate(lines(1, "R")) if number > 8]
    data = sheet(*TITLES, *lines(0, "L"), *lines(0, "R"), *lines(1, "L"), *right, table=(0.54, 0.36, 0.3, 0.08))
    found = read(tmp_path, "prices.pdf", data, text=TABLES)
    assert order_of(found) == ["First", "L000", "R000", "Then", "L100", "kind", "R109", "17"]
    assert texts(found).count("words to fill the line") == 71


def test_text_beside_a_table_of_a_page_in_one_column_is_read_after_it(tmp_path: Path) -> None:
    data = sheet((0.1, 0.9, "Above."), (0.05, 0.5, "Beside."), (0.1, 0.1, "Below."), table=(0.4, 0.4, 0.5, 0.2))
    rows = "kind | holds | price\nsmall | one litre | 10\nlarge | two litres | 20"
    assert texts(read(tmp_path, "a.pdf", data, text=TABLES)).split("\n\n") == ["Above.", rows, "Beside.\nBelow."]
