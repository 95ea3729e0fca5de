"""Packs of pairs, models that have learned a little, and a step of a method over them."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from ft_assets.control.auto.resolve import training_settings
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.recipe.training import TrainingSettings
from ft_assets.workers.packs.format import Pack, PackWriter
from ft_assets.workers.packs.isolation.batches import micro_batch
from ft_assets.workers.packs.packing import one_by_one
from ft_assets.workers.training.methods import make_objective
from ft_assets.workers.training.methods.objective import Objective, Whole, surveyed
from ft_assets.workers.training.model import load_base
from ft_assets.workers.training.ranks import Ranks
from ft_assets.workers.training.reader import References
from ft_assets.workers.training.reference import score
from ft_assets.workers.training.validation import whole_of_pack
from tests.fake_base import VOCABULARY, make_fake_base
from tests.workers.packs.made import made_spool

PAIRS, LONGEST = 7, 30


ALL = range(PAIRS)


def write_pairs(folder: Path, *, prompt: int | None = None, form: str = "preference") -> Pack:
    """Pairs of random answers to a random prompt of so many tokens, of another length each; of unpaired answers people
    liked the first, third, …"""
    random = np.random.default_rng(3)
    folder.mkdir(parents=True)
    documents, learned = [], []
    for _ in ALL:
        shared = random.integers(6, VOCABULARY, prompt or random.integers(2, 9))
        for length in random.integers(1, LONGEST - 9, 2):
            documents.append(np.append(shared, random.integers(6, VOCABULARY, length)))
            learned.append(np.arange(len(documents[-1])) >= len(shared))
    lengths = np.array([len(document) for document in documents])
    spool = made_spool(
        folder / "spool",
        lengths,
        input_ids=np.concatenate(documents).astype(np.int32),
        learned=np.concatenate(learned),
        example=np.repeat(np.arange(PAIRS), 2),
        first_pieces=np.arange(PAIRS, dtype=np.int32) % 2 * 2 if form == "unpaired_preference" else None,
    )
    layout = one_by_one(lengths.reshape(-1, 2), max_length=LONGEST, seed=1, bucket=4)
    PackWriter(folder, "train", form, LONGEST).write(spool, layout)
    return Pack.open(folder, "train")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fake_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    return write_pairs(tmp_path_factory.mktemp("packs") / "pairs")


@pytest.fixture(scope="module")
def reference(folder: Path, pack: Pack) -> References:
    return References(pack, score(load(folder), pack))


@pytest.fixture
def policy(folder: Path) -> Any:
    """The base after some learning."""
    return moved(load(folder))


@pytest.fixture
def plain(folder: Path) -> Any:
    """The same model, without our code."""
    return moved(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32))


def load(folder: Path) -> Any:
    return load_base(folder, TrainingSettings(precision="fp32"), full=True)


def moved(model: Any, scale: float = 0.1) -> Any:
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * scale)
    return model


def made(method: str, **settings: Any) -> Objective:
    """The objective of a recipe with these loss settings."""
    section = {METHODS[method].section: settings} if settings else {}
    recipe = Recipe.model_validate({"key": "tiny.v1", "base": "hub:acme/tiny@main", "method": method, **section})
    return make_objective(training_settings(recipe))


def summed(objective: Objective, model: Any, pack: Pack, sizes: list[int], reference: References) -> dict[str, float]:
    """Loss and figures of one step over the whole pack, in micro-batches of these sizes."""
    total: dict[str, float] = dict.fromkeys(("loss", *objective.figures), 0.0)
    whole = known_whole(objective, model, pack, sizes, reference)
    first = 0
    for size in sizes:
        windows = range(first, first + size)
        found = objective.part(model, micro_batch(pack, windows), whole, reference.of(windows))
        assert tuple(found.figures) == objective.figures
        total["loss"] += float(found.loss.detach())
        for name, value in found.figures.items():
            assert not value.requires_grad
            total[name] += float(value)
        first += size
    return total


def known_whole(objective: Objective, model: Any, pack: Pack, sizes: list[int], reference: References) -> Whole:
    """The whole pack as a step, surveyed in micro-batches of these sizes."""
    edges = [0, *itertools.accumulate(sizes)]
    spans = [range(*edge) for edge in itertools.pairwise(edges)]
    read = ((micro_batch(pack, span), reference.of(span)) for span in spans)
    return surveyed(objective, model, read, whole_of_pack(pack), Ranks(), torch.device("cpu"))
