"""What a reader's process may do to us: nothing."""

from pathlib import Path

import pytest

from ft_assets.settings.dataset.policy import TextSettings
from ft_assets.workers.datasets.intake import sandbox
from ft_assets.workers.datasets.intake.limits import ReadLimits
from ft_assets.workers.datasets.intake.spool import Spool, spool
from ft_resources.errors import BadData


def read(tmp_path: Path, name: str, data: bytes = b"[{}]", limits: ReadLimits | None = None) -> Spool:
    (tmp_path / name).write_bytes(data)
    return spool(tmp_path / name, name, tmp_path / "out", role="upload", text=TextSettings(), limits=limits)


@pytest.mark.parametrize(
    ("name", "allowed_s", "message"),
    [
        ("sleeps.json", 0.1, r"reading the file takes longer than the 0 s allowed for its size"),
        ("segfaults.json", 600, r"makes its reader crash, .* \(SIGSEGV\)"),
        ("exits.json", 600, r"makes its reader crash, .* \(exit code 3\)"),
        ("babbles.json", 600, r"makes its reader crash, .* \(exit code 0\)"),
    ],
)
def test_a_reader_that_misbehaves_refuses_the_file_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, allowed_s: float, message: str
) -> None:
    monkeypatch.setattr(sandbox, "CHILD", "tests.workers.datasets.intake.bad_readers")
    monkeypatch.setattr(sandbox, "_GRACE_S", 0.0)
    with pytest.raises(BadData, match=message):
        read(tmp_path, name, limits=ReadLimits(seconds=allowed_s))
    assert list((tmp_path / "out").iterdir()) == []


def test_a_reader_sees_no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "CHILD", "tests.workers.datasets.intake.bad_readers")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    with pytest.raises(BadData, match="environment") as error:
        read(tmp_path, "tells.json")
    assert "PYTHONPATH" in str(error.value)
    assert "AWS" not in str(error.value)


@pytest.mark.subprocess
def test_processor_time_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_GRACE_S", 600.0)
    data = b'[{"a": 1},' + b'{"a": "\\\\,[]"},' * 6_000_000
    with pytest.raises(BadData, match="takes longer than the 0 s"):
        read(tmp_path, "data.json", data, ReadLimits(seconds=0.0, seconds_per_gib=0.0))


def test_a_module_beside_the_upload_is_never_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('hijacked')")
    (tmp_path / "orjson.py").write_text("raise SystemExit('hijacked')")
    monkeypatch.chdir(tmp_path)
    assert (
        read(tmp_path, "data.csv", b"prompt,completion\na,b\n").path.read_bytes()
        == b'{"prompt":"a","completion":"b"}\n'
    )
