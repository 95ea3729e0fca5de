"""Killed once in every phase, with SIGTERM and with SIGKILL, a run ends with the bytes of a quiet one."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ft_assets.workers.training.data_ledger import check_ledger
from ft_resources.artifacts import EXPLAINING_FOLDERS, Artifact, Artifacts
from ft_resources.outcomes import EXIT_CODES, Outcome
from tests.workers.training.conftest import Bench, make_bench
from tests.workers.training.forks import Blow, Forks

pytestmark = pytest.mark.training

SETTINGS: dict[str, Any] = {"validate_every_steps": 5}
# Without dropout adapters are computed together with their layers, with it they draw random numbers.
DROPOUT = {signal.SIGTERM: 0.1, signal.SIGKILL: 0.0}
TIMEOUT_S = 120
# Two micro-batches a step; a save every three steps; steps 1 to 8 or so.
PHASES = {
    "download": ("ft_resources.artifacts:Artifact.path", 3),
    "loading the model": ("ft_assets.workers.training.model:load_base", 1),
    "making the trainer": ("ft_assets.workers.training.trainer:trainer_config", 1),
    "looking for saves": ("ft_assets.workers.training.saver:newest_save", 1),
    "step": ("ft_assets.workers.training.trainer:PackedTrainer._get_grad_norm", 5),
    "accumulation": ("ft_assets.workers.training.methods.sft:summed_loss", 10),
    "validation": ("ft_assets.workers.training.validation:dealt", 1),
    "copying a save": ("ft_assets.workers.training.state:HostCopies.take", 2),
    "writing a save": ("ft_assets.workers.training.saver:write_state", 2),
    "uploading a save": ("ft_assets.workers.training.saves:SaveWriter._keep_newest", 2),
    "writing the result": ("ft_assets.workers.training.model:save_final", 1),
    "publishing": ("ft_resources.artifacts:content_digest", 1),
}
BEFORE_TRAINING = ("download", "loading the model", "making the trainer", "looking for saves")


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks() as running:
        yield running


def end_of(forks: Forks, bench: Bench, folder: Path, attempt: int, blow: Blow | None = None) -> int:
    """The exit code of a worker's attempt."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = folder / f"spec-{attempt}.json"
    spec.write_text(bench.spec(attempt).model_dump_json())
    return forks.start(spec, folder, blow).wait(TIMEOUT_S)


def content(artifact: Artifact) -> dict[str, bytes]:
    return {name: artifact.read(name) for name in artifact.manifest.files if not name.startswith(EXPLAINING_FOLDERS)}


@pytest.fixture(scope="module")
def quiet(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, bytes]]:
    """The results of uninterrupted runs, by the signal that they are compared with."""
    found = {}
    for number, dropout in DROPOUT.items():
        root = tmp_path_factory.mktemp("quiet")
        bench = make_bench(root, dropout=dropout, **SETTINGS)
        assert end_of(forks, bench, root / "work", 1) == 0
        found[number] = content(Artifacts(bench.store).get(bench.spec().address))
    return found


@pytest.mark.parametrize("number", list(DROPOUT))
@pytest.mark.parametrize("phase", PHASES)
def test_killed_in_any_phase_a_run_ends_with_the_bytes_of_a_quiet_one(
    forks: Forks, quiet: dict[int, dict[str, bytes]], tmp_path: Path, phase: str, number: int
) -> None:
    bench = make_bench(tmp_path, dropout=DROPOUT[number], **SETTINGS)
    place, call = PHASES[phase]
    code = end_of(forks, bench, tmp_path / "work", 1, Blow(place=place, call=call, signal=number))
    saved = bench.store.folders(f"{bench.spec(1).attempt_path}/saves")
    if number == signal.SIGKILL:
        assert code == -signal.SIGKILL
        assert not bench.store.exists(f"{bench.spec(1).attempt_path}/outcome.json")
    else:
        assert code == EXIT_CODES[Outcome.PREEMPTED], (tmp_path / "work" / "spec-1.log").read_text()
        assert bench.store.get_json(f"{bench.spec(1).attempt_path}/outcome.json")["outcome"] == "preempted"
    # Saves are written beside the training: when it is killed, a busy machine may not have written the first one.
    assert bool(saved) == (phase not in BEFORE_TRAINING) or (number == signal.SIGKILL and not saved)
    assert end_of(forks, bench, tmp_path / "work", 2) == 0, (tmp_path / "work" / "spec-2.log").read_text()
    artifact = Artifacts(bench.store).get(bench.spec().address)
    assert content(artifact) == quiet[number]
    assert check_ledger(quiet[number]["ledger.jsonl"].decode().splitlines(), bench.pack, bench.order) == []
    assert list(bench.store.entries(f"{bench.spec().address}/attempts/0001/saves")) == []
    assert list(bench.store.entries(f"{bench.spec().address}/attempts/0002/books")) == []
