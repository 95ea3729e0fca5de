"""Killed in every phase, with SIGTERM and with SIGKILL, a run ends with the bytes of a quiet one."""

import signal
from pathlib import Path
from typing import Any

import pytest

from ft_assets.workers.training.data_ledger import check_ledger
from ft_resources.artifacts import EXPLAINING_FOLDERS, Artifacts
from ft_resources.outcomes import EXIT_CODES, Outcome
from tests.workers.training.conftest import Bench, make_bench
from tests.workers.training.forks import Blow, Forks

pytestmark = pytest.mark.training

# Long enough that each attempt has steps left for its phase.
SETTINGS: dict[str, Any] = {"validate_every_steps": 5, "epochs": 12}
# Without dropout adapters are computed together with their layers, with it they draw random numbers.
DROPOUT = {signal.SIGTERM: 0.1, signal.SIGKILL: 0.0}
# Two micro-batches a step; a save every three steps; each counted from the start of its attempt.
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
# Before the first step, or after the last one's save.
WITHOUT_STEPS = ("download", "loading the model", "making the trainer", "looking for saves", "publishing")


def end_of(forks: Forks, bench: Bench, folder: Path, attempt: int, blow: Blow | None = None) -> int:
    """The exit code of a worker's attempt."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = folder / f"spec-{attempt}.json"
    spec.write_text(bench.spec(attempt).model_dump_json())
    return forks.start(spec, folder, blow).wait()


def result_of(bench: Bench) -> dict[str, bytes]:
    artifact = Artifacts(bench.store).get(bench.spec().address)
    return {name: artifact.read(name) for name in artifact.manifest.files if not name.startswith(EXPLAINING_FOLDERS)}


@pytest.mark.parametrize("number", list(DROPOUT))
def test_killed_in_each_phase_a_run_ends_with_the_bytes_of_a_quiet_one(
    forks: Forks, tmp_path: Path, number: int
) -> None:
    """One attempt for each phase."""
    bench, work = make_bench(tmp_path / "killed", dropout=DROPOUT[number], **SETTINGS), tmp_path / "work"
    for attempt, (phase, (place, call)) in enumerate(PHASES.items(), start=1):
        code = end_of(forks, bench, work, attempt, Blow(place=place, call=call, signal=number))
        path = bench.spec(attempt).attempt_path
        log = f"{phase}: {(work / f'spec-{attempt}.log').read_text()}"
        if number == signal.SIGKILL:
            assert code == -signal.SIGKILL, log
            assert not bench.store.exists(f"{path}/outcome.json"), log
        else:
            assert code == EXIT_CODES[Outcome.PREEMPTED], log
            assert bench.store.get_json(f"{path}/outcome.json")["outcome"] == "preempted", log
            # Killed outright, a busy machine may not have written the first one, as that is done beside the training.
            assert bool(bench.store.folders(f"{path}/saves")) == (phase not in WITHOUT_STEPS), log
    last = len(PHASES) + 1
    assert end_of(forks, bench, work, last) == 0, (work / f"spec-{last}.log").read_text()
    quiet = make_bench(tmp_path / "quiet", dropout=DROPOUT[number], **SETTINGS)
    assert end_of(forks, quiet, tmp_path / "quiet" / "work", 1) == 0
    assert result_of(bench) == result_of(quiet)
    ledger = result_of(bench)["ledger.jsonl"].decode().splitlines()
    assert check_ledger(ledger, bench.pack, bench.order) == []
    for attempt in range(1, last):
        assert list(bench.store.entries(f"{bench.spec(attempt).attempt_path}/saves")) == []
    assert list(bench.store.entries(f"{bench.spec(last).attempt_path}/books")) == []
