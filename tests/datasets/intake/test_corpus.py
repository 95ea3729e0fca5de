"""Every malformed upload is refused in its words, by a process that lives on, and leaves nothing behind."""

import os
import resource
from pathlib import Path

import pytest

from ft_assets.datasets.forms.parse import parse_lines
from ft_assets.datasets.forms.settings import FormSettings
from ft_assets.datasets.intake.chunking import chunks
from ft_assets.datasets.intake.limits import ReadLimits
from ft_assets.datasets.intake.snapshot import take_snapshots
from ft_assets.datasets.intake.spool import spool
from ft_assets.datasets.policy import TextSettings
from ft_resources.errors import BadData
from tests.datasets.intake.corpus import CASES, Upload, sparse
from tests.datasets.intake.messages import MESSAGES


def check(path: Path, folder: Path, limits: ReadLimits) -> None:
    """Take, spool and parse ``path`` as a policy that rejects bad rows has it. Raises BadData."""
    (upload,) = take_snapshots({"upload": [path]}, folder)
    spooled = spool(
        upload.path, upload.name, folder / "spool", role="upload", text=TextSettings(), limits=limits,
        sha256=upload.sha256,
    )  # fmt: skip
    remedy = "Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    for chunk in chunks(spooled):
        for row in chunk.too_long:
            where = f"{upload.name}, row {chunk.first_row + row - 1}"
            raise BadData("the row is longer than 16 MiB", where=where, remedy=remedy)
        for bad in parse_lines(chunk.lines, FormSettings(), ended=chunk.ended).bad.to_pylist():
            where = f"{upload.name}, row {chunk.first_row + bad['row'] - 1}" + (bad["field"] and f", {bad['field']}")
            raise BadData(bad["problem"], where=where, remedy=remedy)


@pytest.mark.parametrize("upload", CASES, ids=lambda upload: upload.id)
def test_a_malformed_upload_is_refused_in_these_words_and_leaves_nothing(
    upload: Upload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    path = upload.build(tmp_path / "in")
    if upload.grows:
        _grow_while_read(path, monkeypatch)
    with pytest.raises(BadData) as error:
        check(path, tmp_path / "out", upload.limits)
    assert str(error.value).replace(str(tmp_path), "") == MESSAGES[upload.id]
    spooled = tmp_path / "out" / "spool"
    if ", row " not in error.value.where and spooled.exists():
        assert list(spooled.iterdir()) == []


@pytest.mark.e2e
def test_a_line_of_a_gigabyte_takes_no_gigabyte_of_memory(tmp_path: Path) -> None:
    path, out = sparse(1024)(tmp_path), tmp_path / "out"
    out.mkdir()
    spooled = spool(path, path.name, out, role="upload", text=TextSettings(), sha256="")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = [(chunk.first_row + row - 1, len(chunk.lines)) for chunk in chunks(spooled) for row in chunk.too_long]
    assert found == [(1201, 1)]
    # Pages of the mapped file count, though the system may take them back at any time.
    assert _anonymous_kib() < before + 64 * 1024


def _anonymous_kib() -> int:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["RssAnon"].split()[0])


def test_every_malformed_upload_has_its_words_and_there_are_enough_of_them() -> None:
    assert {upload.id for upload in CASES} == set(MESSAGES)
    assert len(CASES) == len(MESSAGES) >= 75


def _grow_while_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = os.read

    def read_once_and_append(descriptor: int, count: int) -> bytes:
        monkeypatch.setattr(os, "read", read)
        data = read(descriptor, count)
        with path.open("ab") as writer:
            writer.write(b'{"prompt": "one more')
        return data

    monkeypatch.setattr(os, "read", read_once_and_append)
