"""The best weights of a run are kept, whatever interrupts it, and validation alone chooses."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from ft_assets.worker import drop_saves
from ft_assets.workers.training.kept_weights import RECORD, candidate_weights, lowest
from ft_assets.workers.training.train import train
from ft_resources.work import attempt_path
from tests.workers.training.conftest import Bench, content, make_bench
from tests.workers.training.test_train import assert_same, run_killed_at

pytestmark = pytest.mark.training

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
