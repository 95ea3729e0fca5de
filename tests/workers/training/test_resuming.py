"""Whatever a run trains and how: killed or stopped, it has the bytes of a quiet one, and keeps its best weights."""

import json
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from ft_assets.worker import drop_saves
from ft_assets.workers.training.data_ledger import check_ledger
from ft_assets.workers.training.kept_weights import RECORD, candidate_weights, lowest
from ft_assets.workers.training.train import train
from ft_resources.artifacts import EXPLAINING_FOLDERS, Artifacts
from ft_resources.outcomes import EXIT_CODES, Outcome
from ft_resources.work import attempt_path
from tests.workers.training.conftest import Bench, content, make_bench
from tests.workers.training.forks import Blow, Forks
from tests.workers.training.test_train import assert_same, figures, run_killed_at, run_stopped_at
from tests.workers.training.test_warm_start import continuing, exported
from tests.workers.training.variants.kinds import make_kind
from tests.workers.training.variety import make_variety

pytestmark = pytest.mark.training

# Six steps. A save follows the third; the best of two validations is kept.
SHORT: dict[str, Any] = {"documents": 40, "validate_every_steps": 2}
BF16: dict[str, Any] = {**SHORT, "precision": "bf16"}
FULL: dict[str, Any] = {**SHORT, "variant": "full"}
ROUNDED: dict[str, Any] = {**BF16, "variant": "full", "weights": "bfloat16"}


def kind(name: str, **settings: Any) -> Callable[[Path], Bench]:
    return partial(make_kind, kind=name, keep_best=1, **{**SHORT, **settings})


def qlora(root: Path, method: str, precision: str, **lora: Any) -> Bench:
    bench = make_variety(root, method, "qlora", precision=precision)
    bench.params["lora"] |= lora
    return bench


def warm_start(root: Path) -> Bench:
    bench = make_bench(root, **SHORT)
    return continuing(bench, exported(bench, train(bench.context())))


CASES: dict[str, Callable[[Path], Bench]] = {
    "lora": partial(make_bench, **SHORT),
    "full": partial(make_bench, keep_best=1, **FULL),
    "lora in fp8": partial(make_bench, **SHORT, precision="fp8"),
    "weights in bfloat16, moments in 8 bits": partial(make_bench, **ROUNDED, optimizer="adamw_8bit"),
    "adafactor": partial(make_bench, **FULL, optimizer="adafactor"),
    "muon": partial(make_bench, **FULL, optimizer="muon"),
    "a continued adapter": warm_start,
    "pissa_rslora in bf16": kind("pissa_rslora", precision="bf16"),
    "dpo, qlora with dora in bf16": partial(qlora, method="dpo", precision="bf16", use_dora=True),
}
# What `make test` leaves out: each part of them is in one of the others.
MORE: dict[str, Callable[[Path], Bench]] = {
    "lora in bf16": partial(make_bench, **BF16),
    "weights in bfloat16": partial(make_bench, **ROUNDED),
    "dora in bf16": kind("dora", precision="bf16"),
    "full in bf16": partial(make_bench, **BF16, variant="full"),
    "moments in 8 bits": partial(make_bench, **FULL, optimizer="adamw_8bit"),
    "rslora": kind("rslora"),
    "dpo, qlora in bf16": partial(qlora, method="dpo", precision="bf16"),
    "kto, qlora": partial(qlora, method="kto", precision="fp32"),
    "full in fp8": partial(make_bench, **FULL, precision="fp8"),
    "lora_plus": kind("lora_plus"),
    "lora, moments in 8 bits": partial(make_bench, **SHORT, optimizer="adamw_8bit"),
    "lora, adafactor": partial(make_bench, **SHORT, optimizer="adafactor"),
    "rslora in bf16": kind("rslora", precision="bf16"),
    "dora": kind("dora"),
    "pissa": kind("pissa"),
    "pissa in bf16": kind("pissa", precision="bf16"),
    "pissa_rslora": kind("pissa_rslora"),
    "lora_plus in bf16": kind("lora_plus", precision="bf16"),
    "dpo, qlora": partial(qlora, method="dpo", precision="fp32"),
}


@pytest.mark.parametrize("case", [*CASES, *(pytest.param(case, marks=pytest.mark.long) for case in MORE)])
def test_killed_and_stopped_a_run_ends_with_the_bytes_and_figures_of_a_quiet_one(tmp_path: Path, case: str) -> None:
    if "fp8" in case:
        pytest.importorskip("torchao.float8", reason="torchao is not installed: the extra float8")
    make = (CASES | MORE)[case]
    quiet = train(make(tmp_path / "quiet").context())
    bench = make(tmp_path / "killed")
    bench.runtime["checkpoint_every_steps"] = 3
    run_killed_at(bench, 1, 4)
    run_stopped_at(bench, 2, 5)
    resumed = train(bench.context(3))
    # A stop costs no step.
    assert resumed.facts["resumed"] == [{"attempt": 2, "step": 5}]
    assert_same(quiet, resumed)
    assert figures(quiet) == figures(resumed)
    assert quiet.facts["steps"] == 6
    for fact in ("validation_loss", "kept"):
        assert quiet.facts.get(fact) == resumed.facts.get(fact)


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


# Two windows a step are learned by heart soon, so validation turns up long before the end.
GREEDY: dict[str, Any] = {"learning_rate": 3e-2, "epochs": 8, "validate_every_steps": 3, "keep_best": 2}


def greedy(root: Path, variant: str = "lora", **settings: Any) -> Bench:
    return make_bench(root, variant=variant, documents=24, **{**GREEDY, **settings})


def test_the_weights_with_the_lowest_validation_loss_are_kept_through_kills_as_in_a_quiet_run(tmp_path: Path) -> None:
    quiet = train(greedy(tmp_path / "quiet").context())
    losses = dict(quiet.facts["validation_loss"])
    last = quiet.facts["steps"]
    best = sorted((step for step in losses if step != last), key=lambda step: losses[step])[:2]
    assert [step for step, _ in quiet.facts["kept"]] == sorted(best)
    assert {path.name for path in (quiet.folder / "kept").iterdir()} == {f"{step:06d}" for step in best}
    bench = greedy(tmp_path / "killed")
    for attempt, step in enumerate((4, 8, 13), start=1):
        run_killed_at(bench, attempt, step)
    resumed = train(bench.context(4))
    assert resumed.facts["kept"] == quiet.facts["kept"]
    assert_same(quiet, resumed)
    drop_saves(bench.store, bench.spec(4).address, [1, 2, 3, 4])
    assert not list(bench.store.entries(f"{attempt_path(bench.spec(4).address, 4)}/kept"))


def test_kept_weights_are_those_that_a_run_ended_there_would_have(tmp_path: Path) -> None:
    """With a constant rate a run does not depend on its length."""
    kept = train(greedy(tmp_path / "long", schedule="constant").context())
    step = kept.facts["kept"][0][0]
    short = train(greedy(tmp_path / "short", schedule="constant", max_steps=step, keep_best=None).context())
    long_weights = load_file(kept.folder / "kept" / f"{step:06d}" / "adapter_model.safetensors")
    short_weights = load_file(short.folder / "final" / "adapter_model.safetensors")
    assert long_weights.keys() == short_weights.keys()
    assert all(long_weights[name].equal(short_weights[name]) for name in long_weights)


def test_keeping_changes_nothing_of_the_training(tmp_path: Path) -> None:
    kept = content(train(greedy(tmp_path / "kept", "full").context()))
    plain = content(train(greedy(tmp_path / "plain", "full", keep_best=None).context()))
    for name in plain:
        assert name == "recipe.json" or kept[name] == plain[name], name


def test_damaged_weights_are_left_out_and_the_run_ends_all_the_same(tmp_path: Path) -> None:
    bench = greedy(tmp_path)
    run_killed_at(bench, 1, 13)
    place = f"{attempt_path(bench.spec(1).address, 1)}/kept"
    found = sorted({entry.path.split("/")[-2] for entry in bench.store.entries(place)})
    assert len(found) == 2
    name = f"{place}/{found[0]}/adapter_model.safetensors"
    bench.store.put(name, bench.store.get(name)[:-1] + b"\0\0")
    result = train(bench.context(2))
    folders = {path.name for path in (result.folder / "kept").iterdir()}
    assert {f"{step:06d}" for step, _ in result.facts["kept"]} == folders
    assert all(path.exists() for step in folders for path in [result.folder / "kept" / step / "adapter_config.json"])
    assert not list(result.folder.rglob(RECORD))


@given(st.lists(st.floats(0, 9), min_size=1, max_size=9), st.integers(1, 4))
def test_the_candidate_has_the_lowest_validation_loss_of_those_there_are_and_a_tie_goes_to_the_later(
    losses: list[float], count: int
) -> None:
    rows = [{"step": 10 * place, "validation_loss": loss} for place, loss in enumerate(losses, start=1)]
    last = 10 * len(losses)
    kept = lowest(rows, count, last=last)
    facts = json.loads(
        json.dumps({"steps": last, "validation_loss": [list(row.values()) for row in rows], "kept": kept})
    )
    chosen = candidate_weights(facts, "best_validation")
    by_step = {row["step"]: row["validation_loss"] for row in rows}
    assert by_step[chosen.step] == min(losses)
    assert all(by_step[step] > min(losses) for step in by_step if step > chosen.step)
    assert chosen.prefix == ("final/" if chosen.step == last else f"kept/{chosen.step:06d}/")
    assert candidate_weights(facts, "last").prefix == "final/"


def test_the_weights_after_a_step_are_those_that_were_kept_after_it() -> None:
    facts = {"steps": 9, "validation_loss": [[5, 1.0], [9, 2.0]], "kept": [[5, 1.0]]}
    assert candidate_weights(facts, 5).prefix == "kept/000005/"
    assert candidate_weights(facts, 9).prefix == "final/"
    with pytest.raises(ValueError, match="after steps 5, 9, not after 7"):
        candidate_weights(facts, 7)


def test_a_checkpoint_from_before_there_was_a_choice_has_its_last_weights() -> None:
    assert candidate_weights({"steps": 9, "validation_loss": [[9, 1.0]]}, "best_validation").prefix == "final/"
    assert candidate_weights({"steps": 9, "validation_loss": []}, "best_validation").prefix == "final/"
