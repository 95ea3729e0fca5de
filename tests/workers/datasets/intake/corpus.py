"""Malformed uploads: each builds one path in a folder, and has the words that it is refused with."""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from ft_assets.workers.datasets.intake.limits import ReadLimits
from tests.workers.datasets.intake.builders import (
    CSV_TEXT,
    GOOD,
    MIB,
    ROWS,
    bad_footer,
    csv_with_huge_field,
    dangling_link,
    directory,
    flipped,
    good_parquet,
    gzip_bomb,
    gzip_named,
    link,
    parquet,
    parquet_bomb,
    parquet_wide_bomb,
    pipe,
    sparse,
    turns_with_pictures,
    unfinished,
    wide_csv,
    with_row,
    written,
    zipped,
    zstd,
)
from tests.workers.datasets.intake.pdfs import make_pdf


@dataclass(frozen=True)
class Upload:
    """``build`` makes the upload in a folder and returns its path; ``grows``: it is appended to while it is read."""

    id: str
    build: Callable[[Path], Path]
    said: str
    remedy: str
    limits: ReadLimits = field(default_factory=ReadLimits)
    grows: bool = False

    @property
    def words(self) -> str:
        return f"{self.said}\n  What to do: {self.remedy}"


def file(id: str, name: str, data: bytes | Callable[[], bytes], said: str, remedy: str, **more: Any) -> Upload:
    """A file of which is said ``said``, behind its name."""
    return Upload(id, written(name, data), f"{name}{said}", remedy, **more)


SMALL = ReadLimits(row_bytes=1 << 16)
LITTLE_MEMORY = ReadLimits(memory_bytes=96 * MIB)
CORRECT = (
    "Correct the row, or leave it out: put this into dataset.yaml, and give it with `--policy dataset.yaml`:\n"
    "on_bad_row: drop"
)
HALF_BAD = CORRECT.replace("on_bad_row: drop", "{on_bad_row: drop, max_dropped_share: 0.5}")
ALL_BAD = "Correct the row: 100% of the rows are bad."
AGAIN = "Save or transfer it again, whole, and check that it opens where it came from."
FILL = "Upload a file with examples in it."
ENCODE = "Save the file as UTF-8 (in Excel: CSV UTF-8); it may be in an older encoding, in part or as a whole."
RENAME = "Rename it: at most 120 printable characters, and no dot or hyphen in front."
UNPACK = "Add the data uncompressed."
NAME_COLUMNS = "Give every column a unique name in the first line."
GIVE_ROWS = "Give the path of a file with rows."
FORMATS = "JSONL, JSON, Parquet, CSV, TSV, XLSX, TXT, Markdown, HTML, DOCX or PDF, also compressed as .gz or .zst"
OTHER_FORMAT = f"Save it as {FORMATS}, with that ending."
UNZIP = "Unpack it and add its files; Word and Excel files are named .docx and .xlsx."
CHECK = "Check that it is complete, and that its name ends in its format."
UTF8 = "Save the file as UTF-8."
AS_TEXT = "Save it as text, numbers, lists or structs, or leave it out if nothing is learned from it."
CLOSE_QUOTE = "Close the quote, and double quotes inside quoted fields."
GIVE_ITSELF = "Give the path of the file itself."
CHECK_PATH = "Check the path."
NAME_GZ = "Let its name end in its format and .gz, such as data.jsonl.gz."
NAME_ZST = "Let its name end in its format and .zst, such as data.jsonl.zst."
NO_NULS = "Save it as UTF-8 text; if it is text, it may be UTF-16, or its transfer may have failed."
ONE_ARRAY = 'Write the rows as one array: [{"prompt": …, "completion": …}, …].'
NO_COMMA = "Remove the extra comma: with it, the array is not valid JSON."
FEWER_COLUMNS = "Keep the columns that hold the examples."
QUOTE = "Put fields that hold commas, quotes or line ends into double quotes, and double the quotes inside."
CASES: list[Upload] = [
    # Names and places
    Upload("symbolic link", link, "link.jsonl: this is a symbolic link", GIVE_ITSELF),
    Upload("dangling symbolic link", dangling_link, "link.jsonl: this is a symbolic link", GIVE_ITSELF),
    Upload("directory", directory, "folder.jsonl: this is not a regular file", GIVE_ROWS),
    Upload("named pipe", pipe, "pipe.jsonl: this is not a regular file", GIVE_ROWS),
    Upload("device", lambda _: Path("/dev/zero"), "zero: this is not a regular file", GIVE_ROWS),
    Upload("not there", lambda _: Path("/nowhere/data.jsonl"), "/nowhere/data.jsonl: there is no such file",
         CHECK_PATH),
    Upload("path that climbs to what is not there", lambda _: Path("/nowhere/../../nowhere/data.jsonl"),
         "/nowhere/../../nowhere/data.jsonl: there is no such file", CHECK_PATH),
    Upload("long name", written("x" * 120 + ".jsonl", GOOD),
         f"file name: '{'x' * 120}.jsonl' cannot be the name of an upload", RENAME),
    Upload("long name in bytes", written("你" * 70 + ".jsonl", GOOD),
         f"file name: '{'你' * 70}.jsonl' cannot be the name of an upload", RENAME),
    Upload("name of dots", lambda folder: folder / "..", "file name: '..' cannot be the name of an upload", RENAME),
    Upload("name with backslashes", written("..\\..\\data.jsonl", GOOD),
         "file name: '..\\\\..\\\\data.jsonl' cannot be the name of an upload", RENAME),
    Upload("name with a line end", written("data\n.jsonl", GOOD),
         "file name: 'data\\n.jsonl' cannot be the name of an upload", RENAME),
    Upload("hidden name", written(".data.jsonl", GOOD), "file name: '.data.jsonl' cannot be the name of an upload",
         RENAME),
    Upload("name like an option", written("-rf.jsonl", GOOD), "file name: '-rf.jsonl' cannot be the name of an upload",
         RENAME),
    file("unknown ending", "data.odt", zipped("content.xml"), ": files ending in '.odt' cannot be read", OTHER_FORMAT),
    file("no ending", "data", GOOD, ": the file's name does not end in a format", OTHER_FORMAT),
    file("unknown ending, compressed", "data.tar.gz", gzip.compress(GOOD), ": files ending in '.tar.gz' cannot be read",
         OTHER_FORMAT),
    file("still being written", "data.jsonl", GOOD, ": the file changed while it was being read",
         "Wait until it is written, then add it again.", grows=True),
    # Wrong content for the name
    file("empty", "data.jsonl", b"", ": the file is empty (0 bytes)", FILL),
    file("only blank lines", "data.jsonl", b"\n \n\t\r\n" * 100, ": the file has no rows", FILL),
    file("only a byte order mark", "data.jsonl", b"\xef\xbb\xbf\n", ": the file has no rows", FILL),
    file("zip as jsonl", "data.jsonl", zipped("data.jsonl"), ": this is a ZIP file, not JSON lines", UNZIP),
    file("zip bomb as jsonl", "data.jsonl", zipped("a", "../../b", size=8 * MIB),
         ": this is a ZIP file, not JSON lines", UNZIP),
    file("gzip as jsonl", "data.jsonl", gzip.compress(GOOD), ": this is a gzip file, not JSON lines", NAME_GZ),
    file("zstd as csv", "data.csv", lambda: zstd(GOOD), ": this is a zstd file, not CSV", NAME_ZST),
    file("parquet as jsonl", "data.jsonl", good_parquet, ": this is a Parquet file, not JSON lines",
         "Rename it so that it ends in .parquet."),
    file("pdf as txt", "book.txt", lambda: make_pdf(["text"]), ": this is a PDF file, not plain text",
         "Rename it so that it ends in .pdf."),
    file("pickle as json", "data.json", b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00K\x01.",
         ": this is a Python pickle file, not JSON",
         f"Save the data as {FORMATS}."),
    file("jsonl as parquet", "data.parquet", GOOD, ": this is not a Parquet file, though its name ends in '.parquet'",
         CHECK),
    file("jsonl as pdf", "data.pdf", GOOD, ": this is not a PDF file, though its name ends in '.pdf'", CHECK),
    file("jsonl as gzip", "data.jsonl.gz", GOOD, ": this is not a gzip file, though its name ends in '.gz'", CHECK),
    file("zstd as gzip", "data.jsonl.gz", lambda: zstd(GOOD), ": this is a zstd file, not gzip", NAME_ZST),
    file("gzip in gzip", "data.jsonl.gz", gzip.compress(gzip.compress(GOOD)), ": this is a gzip file, not JSON lines",
         NAME_GZ),
    file("zip in gzip", "data.jsonl.gz", gzip.compress(zipped("data.jsonl")), ": this is a ZIP file, not JSON lines",
         UNZIP),
    file("login page", "data.jsonl", b"<!DOCTYPE html>\n<html><body>Sign in</body></html>\n",
         ": this is an HTML page, perhaps a login or error page saved in place of the data",
         "Download the data again, signed in, and look at it before you add it; a page to train on is named .html."),
    file("git lfs pointer", "data.csv", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
         ": this is a Git LFS pointer, not the file it points to",
         "Fetch the data itself with `git lfs pull`, then add it again."),
    file("utf-16 with mark", "data.jsonl", GOOD.decode().encode("utf-16"),
         ": the file is UTF-16 text, not UTF-8 (byte 1)", UTF8),
    file("utf-16 big endian with mark", "data.csv", b"\xfe\xff" + CSV_TEXT.encode("utf-16-be"),
         ": the file is UTF-16 text, not UTF-8 (byte 1)", UTF8),
    file("utf-16 without mark", "data.jsonl", GOOD.decode().encode("utf-16-le"),
         ": the file is not text: 7,700 of its first 15,400 bytes are NUL", NO_NULS),
    file("utf-32 with mark", "data.json", json.dumps(ROWS).encode("utf-32"),
         ": the file is UTF-32 text, not UTF-8 (byte 1)", UTF8),
    file("nul bytes everywhere", "data.jsonl", b"\0" * 5000,
         ": the file is not text: 5,000 of its first 5,000 bytes are NUL", NO_NULS),
    Upload("nul bytes at the end", unfinished,
         "data.jsonl: the file ends in NUL bytes, as after a transfer that was not completed",
         "Transfer the file again and compare its size or checksum with the original's."),
    file("array as jsonl", "data.jsonl", json.dumps(ROWS, indent=1).encode(),
         ": this is one JSON array, not one object a line",
         "Name the file .json instead, or write one object per line."),
    file("pretty-printed jsonl", "data.jsonl", b"\n".join(json.dumps(r, indent=1).encode() for r in ROWS),
         ": the first object spans more than one line",
         "Write each object on one line; or, if it is one JSON document, name the file .json."),
    file("old mac line ends", "data.jsonl", GOOD.replace(b"\n", b"\r"), ": lines end in a carriage return alone",
         "Save the file with line ends \\n (Unix) or \\r\\n (Windows)."),
    # Compressed
    file("truncated gzip", "data.jsonl.gz", gzip.compress(GOOD)[:-200],
         ": the gzip file is damaged: it is incomplete: its end mark is missing", AGAIN),
    file("gzip without its checksum", "data.jsonl.gz", gzip.compress(GOOD)[:-4],
         ": the gzip file is damaged: it is incomplete: its end mark is missing", AGAIN),
    file("gzip with a wrong checksum", "data.jsonl.gz", flipped(gzip.compress(GOOD), -8),
         ": the gzip file is damaged: its checksum does not match its bytes", AGAIN),
    file("gzip with rubbish behind", "data.jsonl.gz", gzip.compress(GOOD) + b"rubbish",
         ": the gzip file is damaged: its checksum does not match its bytes", AGAIN),
    file("gzip of nothing", "data.jsonl.gz", gzip.compress(b""), ": the file is empty once unpacked", FILL),
    file("gzip of blank lines", "data.jsonl.gz", gzip.compress(b"\n" * 50), ": the file has no rows", FILL),
    file("gzip bomb", "data.jsonl.gz", lambda: gzip_bomb(64),
         ": the file unpacks to more than 200 times its size, as only malicious files do", UNPACK),
    file("gzip bomb of many members", "data.csv.gz", lambda: gzip_bomb(1, b"a") * 64,
         ": the file unpacks to more than 200 times its size, as only malicious files do", UNPACK),
    file("gzip name that climbs", "data.jsonl.gz", gzip_named("../../x", b"oops\n" + GOOD),
         ", row 1: the row is not valid JSON at character 1 (Expecting value)", CORRECT),
    file("truncated zstd", "data.jsonl.zst", lambda: zstd(GOOD)[:-100],
         ": the zstd file is damaged: it is incomplete: its end mark is missing", AGAIN),
    file("zstd bomb", "data.json.zst", lambda: zstd(b"[" + b" " * 64 * MIB),
         ": the file unpacks to more than 200 times its size, as only malicious files do", UNPACK),
    file("too large unpacked", "data.jsonl.gz", gzip.compress(GOOD),
         ": the file unpacks to more than the allowed 1,000 bytes", "Split the data into several files.",
         limits=ReadLimits(out_bytes=1000)),
    # JSON
    file("json scalar", "data.json", b'"hello"', ": this is not JSON: it starts with neither [ nor {",
         "Write a JSON array of objects, or let its name end in its format."),
    file("json cut off", "data.json", json.dumps(ROWS).encode()[:-500],
         ": the JSON file is damaged: it ends inside element 113 of the array, so a part is missing", AGAIN),
    file("json cut off in a string", "data.json", b'[{"prompt": "what is',
         ": the JSON file is damaged: it ends inside element 1 of the array, so a part is missing", AGAIN),
    file("json object cut off", "data.json", b'{"rows": [{"prompt": "what is"}, ',
         ": the JSON file is damaged: it ends after 33 bytes, inside the object, so a part is missing", AGAIN),
    file("json array of nothing", "data.json", b" [ ] ", ": the JSON array is empty", FILL),
    file("json object without rows", "data.json", b'{"prompt": ["a"], "completion": ["b"]}',
         ": the JSON is one object that holds no list of objects", ONE_ARRAY),
    file("json object of two lists", "data.json", b'{"train": [{"a": 1}], "test": [{"a": 2}]}',
         ": the JSON is one object that holds 2 lists of objects, so it is not clear which the rows are", ONE_ARRAY),
    file("json element missing", "data.json", b'[{"a": 1},, {"a": 2}]',
         ", row 2: there is nothing between two commas, or after the last one", NO_COMMA),
    file("json comma at the end", "data.json", b'[{"a": 1},\n]',
         ", row 2: there is nothing between two commas, or after the last one", NO_COMMA),
    file("two json arrays", "data.json", b'[{"a": 1}]\n[{"a": 2}]', ": there is more text after the end of the JSON",
         "Keep one JSON array in a file; or write one object a line, and name the file .jsonl."),
    file("json of brackets", "data.json", b"[" * 3_000_000,
         ": the JSON file is damaged: it ends inside element 1 of the array, so a part is missing", AGAIN),
    file("json brackets that do not match", "data.json", b'[{"a": [1}, {"b": 2]}]',
         ", row 1: the row is not valid JSON at character 9 (Expecting ',' delimiter)", ALL_BAD),
    file("json element nested deeply", "data.json", b"[" + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"]",
         ", row 1: the row's JSON is nested too deeply", ALL_BAD),
    file("json element with a line end in a string", "data.json", b'[{"prompt": "a\nb", "completion": "c"}]',
         ", row 1: the row is not valid JSON at character 14 (Invalid control character at)", ALL_BAD),
    # Parquet
    file("truncated parquet", "data.parquet", lambda: good_parquet()[:-100],
         ": the Parquet file is damaged: its footer or its pages cannot be read", AGAIN),
    file("parquet with a corrupt footer", "data.parquet", lambda: bad_footer(good_parquet()),
         ": the Parquet file is damaged: its footer or its pages cannot be read", AGAIN),
    file("parquet with corrupt pages", "data.parquet", lambda: flipped(good_parquet(write_page_checksum=True), 60),
         ": the Parquet file is damaged: its footer or its pages cannot be read", AGAIN),
    file("encrypted parquet", "data.parquet", lambda: b"PARE" + good_parquet()[4:-4] + b"PARE",
         ": the Parquet file is encrypted", "Save it without encryption; uploads are kept private."),
    file("parquet of only marks", "data.parquet", b"PAR1PAR1",
         ": the Parquet file is damaged: its footer or its pages cannot be read", AGAIN),
    file("parquet that claims a huge footer", "data.parquet", b"PAR1" + b"\xff\xff\xff\x7f" + b"PAR1",
         ": the Parquet file is damaged: its footer or its pages cannot be read", AGAIN),
    file("parquet bomb", "data.parquet", parquet_bomb,
         ": the file unpacks to more than 200 times its size, as only malicious files do", UNPACK),
    file("parquet bomb in one batch", "data.parquet", parquet_wide_bomb,
         ": reading the file takes more than the allowed 96 MiB of memory",
         "It may be damaged or unpack to far more data; save it as JSON lines instead.", limits=LITTLE_MEMORY),
    file("parquet without rows", "data.parquet", lambda: parquet(pa.table({"a": pa.array([], pa.string())})),
         ": the file has no rows", FILL),
    file("parquet with pictures", "data.parquet", lambda: parquet(pa.table({"image": [b"\x89PNG"]})),
         ": column 'image' holds binary values, which cannot be written as JSON", AS_TEXT),
    file("parquet with bytes for texts", "data.parquet",
         lambda: parquet(pa.table({"prompt": ["a"], "completion": [b"b"]})),
         ": column 'completion' holds binary values, which cannot be written as JSON", AS_TEXT),
    file("parquet with pictures in its turns", "data.parquet", turns_with_pictures,
         ": column 'messages' holds large_binary values, which cannot be written as JSON", AS_TEXT),
    file("parquet of too many columns", "data.parquet", lambda: parquet(pa.table({f"c{n}": [1] for n in range(1001)})),
         ": the file has 1,001 columns, more than the 1,000 that are allowed", FEWER_COLUMNS),
    file("parquet with a null", "data.parquet",
         lambda: parquet(pa.table({"prompt": ["a", None], "completion": ["b", "c"]})),
         ", row 2, prompt: this should be text, not null", HALF_BAD),
    file("parquet in truncated gzip", "data.parquet.gz", lambda: gzip.compress(good_parquet())[:-50],
         ": the gzip file is damaged: it is incomplete: its end mark is missing", AGAIN),
    # CSV
    file("csv of shifting columns", "data.csv", (CSV_TEXT + "a,b,c\n").encode(),
         ", record 121 (line 122): the record has 3 columns, and the header has 2", QUOTE),
    file("csv with a short record", "data.csv", CSV_TEXT.replace("What is 3?,", "").encode(),
         ", record 4 (line 5): the record has 1 column, and the header has 2", QUOTE),
    file("csv with an open quote", "data.csv", (CSV_TEXT + '"a,b\nc,d\n').encode(),
         ", record 121 (line 123): a quote is not closed until the end of the file", CLOSE_QUOTE),
    file("csv with text after a quote", "data.csv", (CSV_TEXT + '"a"b,c\n').encode(),
         ", record 121 (line 122): text follows a closing quote", CLOSE_QUOTE),
    file("csv without a header", "data.csv", b'"' + b"What is it? " * 20 + b'",It is that.\n' * 100,
         ", header: column 1 looks like data, not like a name: the first line should name the columns", NAME_COLUMNS),
    file("csv with numbers as its header", "data.csv", b"prompt,3\n1,2\n",
         ", header: column 2 looks like data, not like a name: the first line should name the columns", NAME_COLUMNS),
    file("csv with a name twice", "data.csv", b"prompt,completion,prompt\na,b,c\n",
         ", header: column 3 has the name of an earlier one", NAME_COLUMNS),
    file("csv with a nameless column", "data.csv", b"prompt,,completion\na,b,c\n", ", header: column 2 has no name",
         NAME_COLUMNS),
    file("csv with only a header", "data.csv", b"prompt,completion\n", ": the file has a header and no records", FILL),
    file("csv of bars", "data.csv", CSV_TEXT.replace(",", "|").encode(),
         ", header: the columns are separated by bars, not commas", "Save it with commas between the columns."),
    file("csv of tabs", "data.csv", CSV_TEXT.replace(",", "\t").encode(),
         ", header: the columns are separated by tabs, not commas", "Name the file .tsv."),
    file("tsv of commas", "data.tsv", CSV_TEXT.encode(), ", header: the columns are separated by commas, not tabs",
         "Name the file .csv."),
    file("csv of too many columns", "data.csv", wide_csv(),
         ", header: the header has 1,001 columns, more than the 1,000 that are allowed", FEWER_COLUMNS),
    file("csv with a huge field", "data.csv", csv_with_huge_field(),
         ", record 1 (line 2): a field is longer than 65,536 bytes, or a quote is not closed", CLOSE_QUOTE,
         limits=SMALL),
    file("csv in latin-1", "data.csv", CSV_TEXT.replace("It is 7.", "Café").encode("latin-1"),
         ", row 8: byte 44 of the row (0xe9) is not UTF-8", ENCODE),
    file("csv with a header in latin-1", "data.csv", "réponse,b\n1,2\n".encode("latin-1"),
         ", header: the name of column 1 has characters that are not printable UTF-8", ENCODE),
    file("csv with an empty answer", "data.csv", b'prompt,completion\na,""\n',
         ", row 1, completion: this text is empty", ALL_BAD),
    # Text and PDF
    file("txt of blanks", "book.txt", b" \n\n\t\n", ": the file has no text", "Upload a file with text in it."),
    file("txt in latin-1", "book.txt", "Ein Café.\n".encode("latin-1"), ": byte 8 (0xe9) is not UTF-8", ENCODE),
    file("txt that ends inside a character", "book.txt", "Ein Café".encode()[:-1], ": byte 8 (0xc3) is not UTF-8",
         ENCODE),
    file("pdf without text", "scan.pdf", lambda: make_pdf(["", ""]),
         ": the PDF has no text in its 2 pages; they may be scanned images",
         "Run text recognition (OCR) over it, or save the text as TXT."),
    file("pdf with a password", "book.pdf", lambda: make_pdf(["secret"], locked=True),
         ": the PDF is protected by a password", "Save a copy without the password."),
    file("truncated pdf", "book.pdf", lambda: make_pdf(["text"] * 5)[:-300],
         ": the PDF file is damaged: it is incomplete: its end mark (%%EOF) is missing", AGAIN),
    file("pdf of rubbish", "book.pdf", b"%PDF-1.7\n" + b"rubbish " * 50 + b"\n%%EOF\n",
         ": the PDF file is damaged: its structure cannot be read", AGAIN),
    file("pdf with a cyclic page tree", "book.pdf", lambda: make_pdf(["text"], cyclic=True),
         ": the PDF file is damaged: page 1 cannot be read", AGAIN),
    file("pdf with a bomb", "book.pdf", lambda: make_pdf(["text"], bomb_mib=160),
         ": the file makes its reader crash, or take more than the 96 MiB of memory that are allowed (SIGABRT)",
         "It is probably damaged: save it again, or save the data in another format.", limits=LITTLE_MEMORY),
    file("pdf with no pages", "book.pdf", lambda: make_pdf([]),
         ": the PDF file is damaged: its structure cannot be read", AGAIN),
    # Rows
    file("row that is cut off", "data.jsonl", GOOD + b'{"prompt": "what',
         ", row 121: the row is not valid JSON at character 12 (Unterminated string starting at); the file ends here "
         "without a line end, so it may have been cut off", CORRECT),
    Upload("row of 40 MiB", sparse(40), "data.jsonl, row 1201: the row is longer than 16 MiB", CORRECT),
    file("row in latin-1", "data.jsonl", with_row('{"prompt": "caf\xe9", "completion": "b"}'.encode("latin-1")),
         ", row 120: byte 16 of the row (0xe9) is not UTF-8", ENCODE),
]  # fmt: skip
