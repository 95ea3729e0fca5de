"""Properties of every method's step: sums over micro-batches, and the first loss, which is known beforehand."""

import math
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.auto.resolve import training_settings
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.packs.format import Pack
from ft_assets.workers.packs.isolation.batches import micro_batch
from ft_assets.workers.training.methods.objective import FirstLoss, WrongReference
from ft_assets.workers.training.methods.orpo import log_odds
from ft_assets.workers.training.reader import References
from ft_assets.workers.training.reference import score
from tests.workers.training.method_world import PAIRS, known_whole, load, made, moved, summed, write_pairs
from tests.workers.training.method_world import folder as folder
from tests.workers.training.method_world import pack as pack
from tests.workers.training.method_world import policy as policy
from tests.workers.training.method_world import reference as reference


def test_the_first_loss_of_kto_is_half_its_weight(folder: Path, tmp_path: Path) -> None:
    pack = write_pairs(tmp_path / "unpaired", form="unpaired_preference")
    model = load(folder)
    reference = References(pack, score(model, pack))
    objective = made("kto")
    expected = objective.first_loss(rough=False)
    assert expected is not None
    expected.require(summed(objective, model, pack, [PAIRS], reference))
    assert made("kto", desirable_weight=2.0).first_loss(rough=False) is None
    with pytest.raises(WrongReference):
        expected.require(summed(objective, moved(load(folder)), pack, [PAIRS], reference))


def test_a_recipe_of_another_method_says_nothing_of_simpo_and_one_of_simpo_says_all() -> None:
    other = Recipe.model_validate({"key": "tiny.v1", "base": "hub:acme/tiny@main", "method": "dpo"})
    assert "simpo" not in other.model_dump(mode="json")
    own = Recipe.model_validate({"key": "tiny.v1", "base": "hub:acme/tiny@main", "method": "simpo"})
    assert own.model_dump(mode="json")["simpo"] == {"beta": 2.0, "gamma": 1.0}
    assert training_settings(own)["simpo"] == {"beta": 2.0, "gamma": 1.0}
    assert "preference" not in training_settings(own)


@pytest.mark.parametrize("method", METHODS)
def test_micro_batches_change_neither_loss_nor_figures_nor_gradient(
    method: str, policy: Any, folder: Path, pack: Pack, reference: References, tmp_path: Path
) -> None:
    objective = made(method)
    if METHODS[method].form.name == "unpaired_preference":
        pack = write_pairs(tmp_path / "unpaired", form="unpaired_preference")
        reference = References(pack, score(load(folder), pack))
    whole = summed(objective, policy, pack, [PAIRS], reference)
    parts = summed(objective, policy, pack, [1, 3, 1, 2], reference)
    assert parts == pytest.approx(whole, rel=1e-4, abs=1e-6)
    gradients = []
    for sizes in ([PAIRS], [4, 3]):
        policy.zero_grad()
        whole_step = known_whole(objective, policy, pack, sizes, reference)
        first = 0
        for size in sizes:
            windows = range(first, first + size)
            batch = micro_batch(pack, windows)
            objective.part(policy, batch, whole_step, reference.of(windows)).loss.backward()
            first += size
        gradients.append(torch.cat([each.grad.flatten() for each in policy.parameters() if each.grad is not None]))
    assert gradients[0].norm() > 0
    assert torch.allclose(*gradients, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("loss", ["sigmoid", "sigmoid_norm"])
def test_the_first_loss_of_dpo_is_ln_2(loss: str, folder: Path, pack: Pack, reference: References) -> None:
    objective = made("dpo", loss=loss, beta=5.0)
    expected = objective.first_loss(rough=False)
    assert expected is not None
    model = load(folder)
    alone = summed(objective, model, pack, [1] * PAIRS, reference)["loss"]
    # Each pair by itself is the very forward pass that the reference made.
    assert alone == pytest.approx(math.log(2), rel=1e-6)
    expected.require(summed(objective, model, pack, [PAIRS], reference))


@pytest.mark.parametrize(("loss", "beta"), [("sigmoid", 0.1), ("sigmoid_norm", 5.0)])
@pytest.mark.parametrize("rough", [False, True])
def test_another_reference_is_refused_before_anything_is_learned(
    loss: str, beta: float, rough: bool, policy: Any, pack: Pack, reference: References
) -> None:
    objective = made("dpo", loss=loss, beta=beta)
    expected = objective.first_loss(rough=rough)
    assert expected is not None
    with pytest.raises(WrongReference, match="before anything was learned"):
        expected.require(summed(objective, policy, pack, [PAIRS], reference))


def test_a_first_loss_that_is_another_or_no_number_is_refused() -> None:
    for loss in (math.inf, math.nan, 0.7):
        with pytest.raises(WrongReference, match=r"it is 0\.693147"):
            FirstLoss(value=math.log(2), tolerance=1e-3).require({"loss": loss})


@given(st.floats(-200, 0))
def test_log_odds_are_finite_with_finite_gradients_also_where_the_probability_rounds_to_one(logp: float) -> None:
    value = torch.tensor(logp, requires_grad=True)
    found = log_odds(value)
    found.backward()
    assert torch.isfinite(found)
    assert value.grad is not None
    assert torch.isfinite(value.grad)
    if logp < -1e-3:
        assert float(found) == pytest.approx(logp - math.log(-math.expm1(logp)), rel=1e-4, abs=1e-4)


def test_recipes_take_every_method_and_each_has_a_loss_and_a_section() -> None:
    assert set(METHODS) == set(get_args(Recipe.model_fields["method"].annotation))
    for name, method in METHODS.items():
        objective = made(name)
        assert len(objective.figures) == len(set(objective.figures))
        assert (method.settings is None) == (method.section == "")
