"""The init step brings models to the node's cache, and never stands in the way of the worker."""

import sys
from pathlib import Path

import pytest

from ft_assets import fetch
from ft_resources.artifacts import Address, Artifacts, InputRef
from ft_resources.canonical import digest
from ft_resources.store_marker import open_store
from tests.resources.kubernetes.specs import spec_of
from tests.s3_server import use_bucket


@pytest.fixture
def spec_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_endpoint: str) -> Path:
    """A spec in a bucket whose base is there, and one more input that is none."""
    store = open_store(use_bucket(monkeypatch, s3_endpoint, "fetch"), create=True)
    made = tmp_path / "model"
    made.mkdir()
    (made / "model.safetensors").write_bytes(b"weights")
    address = Address(tenant="shared", asset="base_model", fingerprint=digest({"base": 1}))
    base = Artifacts(store).publish(address, made, writer="w0001-x", identity={"base": 1}, actor="t")
    other = InputRef(address=f"acme/token_pack/{'0' * 64}", digest="d")
    spec = spec_of(store_url=store.url).model_copy(update={"inputs": {"base": base.ref, "pack": other}})
    store.put(f"{spec.attempt_path}/spec.json", spec.model_dump_json().encode())
    monkeypatch.setenv("FT_CACHE", str(tmp_path / "cache" / "files"))
    monkeypatch.setenv("HOME", str(tmp_path / "scratch" / "home"))
    monkeypatch.setenv("FT_SCRATCH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["fetch", spec.location])
    return tmp_path


def test_the_base_is_in_the_cache_before_the_worker_starts(spec_file: Path) -> None:
    fetch.main()
    kept = [path for path in (spec_file / "cache").rglob("*") if path.is_file() and path.read_bytes() == b"weights"]
    assert len(kept) == 1


def test_what_cannot_be_fetched_is_left_to_the_worker(
    spec_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fetch", sys.argv[1].replace("spec.json", "missing.json")])
    fetch.main()
    assert "the worker will try" in capsys.readouterr().out
