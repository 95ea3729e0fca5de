"""``ft ledger`` says whether every example was read exactly once per epoch, and fails where one was not."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ft_assets.cli.main import app
from ft_assets.control import identity
from ft_assets.workers.training.data_ledger import ledger_line
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.canonical import digest
from tests.workers.training.conftest import Bench, make_bench


def trained(bench: Bench, lines: list[str]) -> Artifact:
    """The checkpoint that a training with this ledger would have left."""
    folder = bench.scratch / "made"
    folder.mkdir(parents=True)
    (folder / "ledger.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (folder / "recipe.json").write_text(json.dumps(bench.params))
    named = {"ledger": lines}
    address = Address(tenant="acme", asset="checkpoint", fingerprint=digest(named))
    inputs = {"pack": bench.inputs["pack"].ref}
    return Artifacts(bench.store).publish(address, folder, writer="w1", identity=named, inputs=inputs, actor="test")


Ledger = Callable[[Bench, list[str]], Result]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Runs ``ft ledger`` on a checkpoint with this ledger."""

    def call(bench: Bench, lines: list[str]) -> Result:
        made = trained(bench, lines)
        for name in ("FT_STATE", "DAGSTER_HOME", "FT_TENANTS"):
            monkeypatch.setenv(name, str(tmp_path / "state"))
        monkeypatch.setenv("FT_STORE", bench.store.url)
        monkeypatch.setattr(identity, "checkpoint", lambda _artifacts, _dataset, _recipe: made)
        return CliRunner().invoke(app, ["ledger", "acme.counting.v1", "tiny.v1"])

    return call


def whole(bench: Bench) -> list[str]:
    return [ledger_line(bench.pack, step) for step in bench.order.read()]


def test_a_clean_ledger_is_said_to_be_one(ledger: Ledger, tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    result = ledger(bench, whole(bench))
    assert result.exit_code == 0
    assert result.stdout == "Every example was read exactly once per epoch.\n"
    assert "2 epoch(s), 60 examples" in result.stderr


def test_a_run_cut_short_promises_no_more_than_it_can(ledger: Ledger, tmp_path: Path) -> None:
    bench = make_bench(tmp_path, max_steps=3)
    result = ledger(bench, whole(bench))
    assert result.exit_code == 0
    assert result.stdout == "No example was read twice in an epoch.\n"


def test_a_step_read_twice_is_a_finding_and_an_exit_code(ledger: Ledger, tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    lines = whole(bench)
    lines[2] = lines[1].replace('"step":2', '"step":3')
    result = ledger(bench, lines)
    assert result.exit_code == 1
    assert "epoch 0 missed" in result.stdout
    assert "repeated" in result.stdout


def test_a_ledger_that_cannot_be_read_is_an_error_that_says_where(ledger: Ledger, tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    result = ledger(bench, [*whole(bench)[:-1], "not a line"])
    assert result.exit_code == 2
    assert "ledger cannot be read" in result.stderr
