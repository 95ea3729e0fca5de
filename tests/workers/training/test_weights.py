"""Weights of examples: the loss is the weighted mean over the whole step, and weights of 1 change nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.workers.packs.format import Pack, PackWriter
from ft_assets.workers.packs.isolation.batches import micro_batch
from ft_assets.workers.packs.isolation.forward import token_losses
from ft_assets.workers.packs.packing import one_by_one
from ft_assets.workers.packs.sampler import Order
from ft_assets.workers.training.ranks import Ranks
from ft_assets.workers.training.reader import References, StepReader
from ft_assets.workers.training.reference import score
from ft_assets.workers.training.train import train
from ft_assets.workers.training.validation import validation_loss, whole_of_pack
from tests.fake_base import VOCABULARY, make_fake_base
from tests.workers.packs.made import made_spool
from tests.workers.training.conftest import content, make_bench, publish, write_pack
from tests.workers.training.method_world import load, made, moved
from tests.workers.training.test_train import rows

WEIGHTS = [0.25, 3.0, 1.0, 0.1, 2.0, 1.5, 1.0, 0.7, 5.0, 1.0]
PAIRS = 4
TWO = (Ranks(rank=0, world=2), Ranks(rank=1, world=2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fake_base(tmp_path_factory.mktemp("base"))


def pairs(folder: Path, weights: list[float] | None = None) -> Pack:
    """Four pairs of answers of four tokens to prompts of three."""
    folder.mkdir()
    lengths = np.full(2 * PAIRS, 7)
    spool = made_spool(
        folder / "spool",
        lengths,
        input_ids=np.random.default_rng(2).integers(6, VOCABULARY, lengths.sum()).astype(np.int32),
        learned=np.tile(np.arange(7) >= 3, 2 * PAIRS),
        example=np.repeat(np.arange(PAIRS), 2),
        weights=weights,
    )
    PackWriter(folder, "train", "preference", 7).write(
        spool, one_by_one(lengths.reshape(-1, 2), max_length=7, seed=1, bucket=4)
    )
    return Pack.open(folder, "train")


def test_the_loss_of_a_step_is_the_weighted_mean_over_its_tokens(folder: Path, tmp_path: Path) -> None:
    model, pack = moved(load(folder)), write_pack(tmp_path / "pack", "train", len(WEIGHTS), weights=WEIGHTS)
    losses, weights = [], []
    for window in range(len(pack)):
        batch = micro_batch(pack, [window])
        losses.append(token_losses(model, batch).detach().double())
        learned = np.diff(np.searchsorted(batch.sources.numpy(), batch.boundaries.numpy()))
        examples = pack.read([window]).examples
        weights.append(torch.from_numpy(np.repeat(np.array(WEIGHTS)[examples], learned)))
    expected = float((torch.cat(losses) * torch.cat(weights)).sum() / torch.cat(weights).sum())
    whole = whole_of_pack(pack)
    assert whole.learned == pytest.approx(float(torch.cat(weights).sum()), rel=1e-12)
    for size in (1, len(pack)):
        spans = [range(first, min(first + size, len(pack))) for first in range(0, len(pack), size)]
        found = sum(
            float(made("sft").part(model, micro_batch(pack, span), whole, None).loss.detach()) for span in spans
        )
        assert found == pytest.approx(expected, rel=1e-5)
    assert expected != pytest.approx(float(torch.cat(losses).mean()), rel=1e-3)
    device = torch.device("cpu")
    assert validation_loss(model, made("sft"), pack, device, 2, lambda: None) == pytest.approx(expected, rel=1e-5)


def test_all_ranks_divide_by_the_same_sum(tmp_path: Path) -> None:
    pack = write_pack(tmp_path / "weighed", "train", len(WEIGHTS), weights=WEIGHTS)
    order = Order(windows=len(pack), global_batch=len(pack), epochs=1, seed=3)
    ((alone,), *of_two) = (StepReader(pack, order, 1, ranks) for ranks in (Ranks(), *TWO))
    for (read,) in of_two:
        assert read["read"].whole.learned == alone["read"].whole.learned
        assert read["read"].tokens == alone["read"].tokens


@pytest.mark.parametrize("method", [name for name, each in METHODS.items() if each.form.name == "preference"])
def test_pairs_count_by_their_weight(method: str, folder: Path, tmp_path: Path) -> None:
    chosen = [0.5, 2.0, 1.0, 4.0]
    model, objective = moved(load(folder)), made(method)
    pack, plain = pairs(tmp_path / "weighed", chosen), pairs(tmp_path / "plain")
    reference = References(plain, score(load(folder), plain)) if METHODS[method].compares else References(plain, None)

    def step(pack: Pack, windows: range) -> dict[str, float]:
        whole = whole_of_pack(pack)
        part = objective.part(model, micro_batch(pack, windows), whole, reference.of(windows))
        return {"loss": float(part.loss.detach()), **{name: float(value) for name, value in part.figures.items()}}

    each = [step(plain, range(window, window + 1)) for window in range(PAIRS)]
    weights = [chosen[int(plain.read([window]).examples[0])] for window in range(PAIRS)]
    for name, value in step(pack, range(PAIRS)).items():
        expected = sum(weight * one[name] * PAIRS for weight, one in zip(weights, each, strict=True)) / sum(weights)
        assert value == pytest.approx(expected, rel=1e-4, abs=1e-6), name


def weighed_bench(root: Path, weights: dict[str, list[float]], **settings: Any) -> Any:
    bench = make_bench(root, documents=len(WEIGHTS), **settings)
    for split, each in weights.items():
        write_pack(root / "weighed", split, len(each), seed=int(split == "validation"), weights=each)
    bench.inputs["pack"] = publish(bench.store, root / "weighed", "token_pack", "acme")
    return bench


@pytest.mark.training
def test_weights_of_1_change_no_bit_and_other_weights_are_learned_and_in_the_ledger(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epochs": 1, "global_batch_size": 2, "micro_batch_size": 1}
    plain = train(make_bench(tmp_path / "plain", documents=len(WEIGHTS), **settings).context())
    ones = {"train": [1.0] * len(WEIGHTS), "validation": [1.0] * 12}
    same = train(weighed_bench(tmp_path / "ones", ones, **settings).context())
    theirs, mine = content(plain), content(same)
    assert mine.pop("ledger.jsonl") != theirs.pop("ledger.jsonl")
    assert mine == theirs
    assert rows(same, "loss") == rows(plain, "loss")
    assert same.facts["validation_loss"] == plain.facts["validation_loss"]
    bench = weighed_bench(tmp_path / "others", {"train": WEIGHTS, "validation": [2.0, 0.5] * 6}, **settings)
    other = train(bench.context())
    assert content(other)["final/adapter_model.safetensors"] != theirs["final/adapter_model.safetensors"]
    assert b'"weights":[' in content(other)["ledger.jsonl"]
