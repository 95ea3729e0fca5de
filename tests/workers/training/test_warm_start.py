"""Trainings that continue an adapter: they start where it ended, and change no tensor unnoticed."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file

from ft_assets.settings.recipe.training import LoraSettings, SettledTraining
from ft_assets.workers.training.earlier import CONTINUED_FROM, WARM_START_INPUT, earlier_checkpoints
from ft_assets.workers.training.methods.objective import WrongReference
from ft_assets.workers.training.model import load_base, with_adapters
from ft_assets.workers.training.read_before import holdout_read_before
from ft_assets.workers.training.train import train
from ft_assets.workers.training.variants.warm_start import WEIGHTS, start_from
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import BadRecipe
from ft_resources.work import WorkRequest
from ft_resources.worker_context import WorkResult
from tests.made import leave
from tests.workers.training.conftest import Bench, make_bench, publish, write_pack
from tests.workers.training.test_train import rows
from tests.workers.training.variants.kinds import final, logits_of, make_kind, on_its_base
from tests.workers.training.variety import make_variety, scored

pytestmark = pytest.mark.training


def exported(bench: Bench, result: WorkResult) -> Artifact:
    """The adapter that a training's final weights become, with the checkpoint as its input."""
    artifacts = Artifacts(bench.store)
    checkpoint = leave(artifacts, bench.request, result.folder, result.facts)
    request = WorkRequest(
        asset="adapter",
        tenant="acme",
        code_version="1",
        inputs={"checkpoint": checkpoint.ref, "base": bench.inputs["base"].ref},
        params={"dataset": "acme.counting.v1", "recipe": "acme.tiny.v1"},
        label=bench.request.label,
    )
    return leave(artifacts, request, final(result), {"line": "acme.counting.tiny"})


def continuing(bench: Bench, adapter: Artifact, **changes: Any) -> Bench:
    """The same run, started from ``adapter``."""
    training = {**bench.params["training"], "warm_start": f"artifact:{adapter.address}", **changes}
    return Bench(
        store=bench.store,
        scratch=bench.scratch.with_name("again"),
        inputs={**bench.inputs, WARM_START_INPUT: adapter},
        params={**bench.params, "training": training},
        runtime=bench.runtime,
    )


def assert_same_logits(bench: Bench, one: WorkResult, other: WorkResult) -> None:
    found, expected = (logits_of(on_its_base(bench, final(each))) for each in (one, other))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_the_first_step_has_the_loss_of_the_earlier_adapter_and_not_that_of_new_weights(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, dropout=0.0, epochs=6)
    first = train(bench.context())
    adapter = exported(bench, first)
    # So small a rate that nothing is learned: every step has the loss of the weights that it started from.
    still = continuing(bench, adapter, learning_rate=1e-12, epochs=1)
    second = train(still.context())
    fresh = make_bench(tmp_path / "fresh", dropout=0.0, learning_rate=1e-12, epochs=1)
    mine, new = dict(rows(second, "loss")), dict(rows(train(fresh.context()), "loss"))
    assert mine[1] < new[1] - 0.1
    ended, starts = dict(rows(first, "validation_loss")), dict(rows(second, "validation_loss"))
    assert starts[max(starts)] == pytest.approx(ended[max(ended)], abs=1e-5)
    assert_same_logits(bench, second, first)
    # The schedule is that of a whole training, and the record names what it continued.
    assert [step for step, _ in rows(second, "learning_rate")] == list(range(1, len(mine) + 1))
    assert second.facts[CONTINUED_FROM] == str(adapter.address)
    assert json.loads((second.folder / "recipe.json").read_bytes())["training"]["warm_start"].endswith(
        str(adapter.address)
    )
    assert CONTINUED_FROM not in first.facts


@pytest.mark.parametrize(
    ("kind", "precision"), [("rslora", "fp32"), ("dora", "fp32"), ("lora_plus", "bf16"), ("pissa", "fp32")]
)
def test_each_kind_of_adapter_is_continued_where_it_ended(tmp_path: Path, kind: str, precision: str) -> None:
    """That of PiSSA as plain LoRA of twice its rank."""
    bench = make_kind(tmp_path, kind, max_steps=6, precision=precision)
    first = train(bench.context())
    again = continuing(bench, exported(bench, first), learning_rate=1e-12, max_steps=1)
    if kind == "pissa":
        again.params["lora"] = LoraSettings(rank=8, alpha=16).model_dump(mode="json")
    assert_same_logits(bench, train(again.context()), first)


def test_an_adapter_over_four_bits_is_continued_where_it_ended(tmp_path: Path) -> None:
    bench = make_variety(tmp_path, "sft", "qlora")
    first = train(bench.context())
    second = train(continuing(bench, exported(bench, first), learning_rate=1e-12, max_steps=1).context())
    (_, ended), (_, starts) = first.facts["validation_loss"][-1], second.facts["validation_loss"][-1]
    assert starts == pytest.approx(ended, abs=1e-5)


@pytest.mark.parametrize(
    ("method", "dropout"),
    [
        ("dpo", 0.0),
        ("kto", 0.1),
        *(pytest.param(*more, marks=pytest.mark.long) for more in (("dpo", 0.1), ("kto", 0.0))),
    ],
)
def test_what_compares_starts_from_the_adapter_that_it_compares_with(
    tmp_path: Path, method: str, dropout: float
) -> None:
    """The reference is the base with the continued adapter. Only dropout makes the first step differ from it."""
    bench = make_variety(tmp_path, method, "lora")
    adapter = exported(bench, train(bench.context()))
    again = continuing(bench, adapter)
    again.params["lora"] = {**bench.params["lora"], "dropout": dropout}
    if not dropout:
        with pytest.raises(WrongReference, match="of the first step is"):
            train(again.context())
    again.inputs["reference_logps"] = scored(again)
    steps = rows(train(again.context()), "rewards/chosen")
    assert (abs(steps[0][1]) < 1e-3) == (not dropout)


def test_the_trainings_that_one_continues_are_named_the_last_one_first(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, max_steps=2)
    adapters = [exported(bench, train(bench.context()))]
    for number in (2, 3):
        bench = continuing(bench, adapters[-1])
        bench.scratch = tmp_path / f"scratch-{number}"
        adapters.append(exported(bench, train(bench.context())))
    checkpoints = [adapter.manifest.inputs["checkpoint"].address for adapter in adapters]
    artifacts = Artifacts(bench.store)
    last = artifacts.find(bench.request.address)
    assert last is not None
    assert list(earlier_checkpoints(artifacts, last.address)) == checkpoints[1::-1]
    assert last.manifest.inputs[WARM_START_INPUT] == adapters[1].ref
    assert len({adapter.read(WEIGHTS) for adapter in adapters}) == 3


def test_rows_of_a_holdout_that_earlier_trainings_learned_are_counted(tmp_path: Path) -> None:
    first = make_bench(tmp_path, max_steps=1)
    artifacts = Artifacts(first.store)
    adapter = exported(first, train(first.context()))
    second = continuing(first, adapter)
    write_pack(tmp_path / "more", "train", 20, seed=5)
    write_pack(tmp_path / "more", "validation", 12, seed=1)
    second.inputs["pack"] = publish(first.store, tmp_path / "more", "token_pack", "acme")
    last = exported(second, train(second.context()))

    def held(*ids: str) -> Artifact:
        folder = tmp_path / f"dataset-{len(ids)}-{ids[0][:6]}"
        folder.mkdir()
        pq.write_table(pa.table({"id": list(ids)}), folder / "holdout.parquet")
        return publish(first.store, folder, "dataset", "acme")

    old, new, other = first.pack.example_id(3), second.pack.example_id(7), "ab" * 32
    count = partial(holdout_read_before, artifacts)
    assert count(adapter, held(old, new, other), tmp_path / "one") == 1
    # What the one before the last had learned counts too.
    assert count(last, held(old, new, other, "cd" * 32), tmp_path / "two") == 2
    assert count(last, held(other), tmp_path / "three") == 0


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"rank": 8}, r"lora_A.weight is \[4, \d+\], and \[8, \d+\] is wanted"),
        ({"target_modules": ["q_proj"]}, "this recipe has no .*down_proj.* and 23 more"),
        ({"use_dora": True}, "it lacks .*lora_magnitude_vector and 13 more"),
    ],
)
def test_an_adapter_of_another_shape_is_refused_before_anything_is_learned(
    tmp_path: Path, asked: dict[str, Any], problem: str
) -> None:
    bench = make_bench(tmp_path, max_steps=1)
    again = continuing(bench, exported(bench, train(bench.context())))
    again.params["lora"] = LoraSettings(**{"rank": 4, "alpha": 8, **asked}).model_dump(mode="json")
    with pytest.raises(BadRecipe, match=problem):
        train(again.context())


def test_a_tensor_that_is_missing_is_never_left_new(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, max_steps=1)
    folder = final(train(bench.context()))
    weights = load_file(folder / WEIGHTS)
    dropped = sorted(weights)[3]
    del weights[dropped]
    save_file(weights, folder / WEIGHTS)
    settled = SettledTraining.model_validate(bench.params["training"])
    base = load_base(bench.inputs["base"].folder(tmp_path / "plain"), settled, full=False)
    with pytest.raises(BadRecipe, match=f"it lacks {dropped}"):
        start_from(with_adapters(base, LoraSettings(rank=4, alpha=8)), folder)
