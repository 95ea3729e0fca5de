"""Bad rows are all counted, few are kept, and a chunk of many lines is read as a chunk of few."""

import json
import tracemalloc
from pathlib import Path

import pytest

from ft_assets.control.registry.precheck import check_uploads
from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.forms import convert, parse
from ft_assets.workers.datasets.forms.parse import parse_lines
from ft_assets.workers.datasets.intake.spool import Spool
from ft_assets.workers.datasets.reporting.report import LISTED_NOTES
from ft_resources.errors import BadData
from tests.workers.datasets.forms.test_fast import ODD_ROWS, assert_same


def peak(lines: bytes) -> int:
    tracemalloc.start()
    parse_lines(lines, FormSettings(), ended=True)
    bytes_held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return bytes_held


def test_of_each_reason_the_first_bad_rows_are_kept_and_all_are_counted() -> None:
    parsed = assert_same(b"{}\n" * 300 + b"[]\n" * 400 + b"{}\n", FormSettings())
    assert (parsed.rows, parsed.bad_rows) == (701, {"not_json": 400, "unknown_schema": 301})
    assert parsed.bad.column("row").to_pylist() == [*range(1, LISTED_NOTES + 1), *range(301, 301 + LISTED_NOTES)]


def test_bad_rows_take_the_memory_of_few_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "_LINES", 500)
    peak(b"{}\n" * 500)
    assert peak(b"{}\n" * 5_000) < 1.5 * peak(b"{}\n" * 500)


@pytest.mark.parametrize("form", [FormSettings(), FormSettings(form="preference")])
def test_what_is_wrong_with_a_row_is_looked_for_only_where_it_is_shown(
    form: FormSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sentence with a likely spelling takes twenty times as long as the row."""
    asked: list[str] = []
    for look in ("_unknown", "_missing"):
        monkeypatch.setattr(convert, look, lambda *given: asked.append("once") or "it has no form")
    parsed = parse_lines(b'{"promt": "a"}\n' * 2_000, form, ended=True)
    assert (sum(parsed.bad_rows.values()), len(asked)) == (2_000, LISTED_NOTES)


def test_an_upload_of_bad_rows_is_told_with_their_exact_number(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b"{}\n" * 1_000)
    spool = Spool(name="bad.jsonl", role="upload", path=path, start=0, source_sha256="", source_size=3_000)
    with pytest.raises(BadData, match=r"\(999 more bad rows: 2, 3, 4, …\)"):
        check_uploads([spool], DatasetPolicy())


@pytest.mark.parametrize("lines", [1, 3, 7, 41, 1000])
def test_lines_read_in_groups_are_read_as_all_at_once(lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "_LINES", lines)
    plain = [{"prompt": f"Hi {place}", "completion": "Hello", "note": 1} for place in range(30)]
    written = [json.dumps(row).encode() for row in (*plain[:20], *ODD_ROWS, *plain[20:])]
    for text in (b"\n".join(written), b"\n".join([*written, b"", b" ", b""]), b"", b"\n", b'{"prompt'):
        for ended in (True, False):
            assert_same(text, FormSettings(), ended)
