"""Every malformed upload is refused in its words, by a process that lives on, and leaves nothing behind."""

import os
import resource
from functools import partial
from pathlib import Path

import pytest

from ft_assets.control.registry import versions
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.settings.dataset.policy import DatasetPolicy, TextSettings
from ft_assets.workers.datasets.intake.chunking import chunks
from ft_assets.workers.datasets.intake.spool import spool
from ft_resources.errors import BadData
from ft_resources.store_marker import open_store
from tests.workers.datasets.intake.builders import sparse
from tests.workers.datasets.intake.corpus import CASES, Upload


@pytest.mark.parametrize("upload", CASES, ids=lambda upload: upload.id)
def test_a_malformed_upload_is_refused_in_these_words_and_leaves_nothing(
    upload: Upload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(str(tmp_path / "store"), create=True)
    store.put_json("names/dataset/other.facts.v1.json", {"address": "of somebody else"})
    scratch = tmp_path / "scratch"
    for folder in (tmp_path / "in", scratch):
        folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.setattr(versions, "spool", partial(spool, limits=upload.limits))
    path = upload.build(tmp_path / "in")
    if upload.grows:
        _grow_while_read(path, monkeypatch)
    before = _files(tmp_path / "store")
    with pytest.raises(BadData) as error:
        add_dataset_version(store, path, tenant="acme", name="facts", policy=DatasetPolicy(), actor="tester")
    assert str(error.value).replace(str(tmp_path), "") == upload.words
    assert _files(tmp_path / "store") == before
    assert list(scratch.iterdir()) == []


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.subprocess
def test_a_line_of_256_mebibytes_takes_no_memory_for_them(tmp_path: Path) -> None:
    path, out = sparse(256)(tmp_path), tmp_path / "out"
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


def _grow_while_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = os.read

    def read_once_and_append(descriptor: int, count: int) -> bytes:
        monkeypatch.setattr(os, "read", read)
        data = read(descriptor, count)
        with path.open("ab") as writer:
            writer.write(b'{"prompt": "one more')
        return data

    monkeypatch.setattr(os, "read", read_once_and_append)
