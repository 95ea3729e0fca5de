"""Each method's loss and figures are those of TRL's own code on the same tokens, whatever the micro-batches."""

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import pad
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer
from trl.experimental.cpo import CPOTrainer
from trl.experimental.orpo import ORPOTrainer

from ft_assets.control.auto.resolve import training_settings
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.packs.format import Pack
from ft_assets.workers.packs.isolation.batches import micro_batch
from ft_assets.workers.training.methods.objective import FirstLoss, Part, WrongReference
from ft_assets.workers.training.methods.orpo import log_odds
from ft_assets.workers.training.reader import References
from ft_assets.workers.training.reference import score
from ft_assets.workers.training.validation import whole_of_pack
from tests.workers.training.method_world import ALL, PAIRS, known_whole, load, made, moved, summed, write_pairs
from tests.workers.training.method_world import folder as folder
from tests.workers.training.method_world import pack as pack
from tests.workers.training.method_world import plain as plain
from tests.workers.training.method_world import policy as policy
from tests.workers.training.method_world import reference as reference


def padded(pack: Pack, windows: Any) -> dict[str, torch.Tensor]:
    """The pairs as TRL batches them: all chosen answers, then all rejected ones, padded on the right."""
    rows = [pack.read([window]) for window in windows]
    width = max(int(row.document_lengths.max()) for row in rows)
    batch: dict[str, list[torch.Tensor]] = {"input_ids": [], "completion_mask": [], "attention_mask": []}
    for place in (0, 1):
        for row in rows:
            start, end = np.concatenate([[0], np.cumsum(row.document_lengths)])[place : place + 2]
            ids, learned = (torch.tensor(each[start:end].astype(np.int64)) for each in (row.input_ids, row.learned))
            room = (0, width - len(ids))
            batch["input_ids"].append(pad(ids, room))
            batch["completion_mask"].append(pad(learned, room))
            batch["attention_mask"].append(pad(torch.ones_like(ids), room))
    return {name: torch.stack(tensors) for name, tensors in batch.items()}


PLAIN: dict[str, Any] = {"report_to": "none", "use_cpu": True, "bf16": False, "max_length": None}


@pytest.fixture
def trl_dpo(plain: Any, tmp_path: Path) -> Callable[..., tuple[float, dict[str, float]]]:
    """``compute(loss_type, beta, batch)``: loss and metrics of TRL's own code, without its data handling."""

    def compute(loss: str, beta: float, batch: dict[str, torch.Tensor]) -> tuple[float, dict[str, float]]:
        trainer = DPOTrainer(
            model=plain,
            args=DPOConfig(
                output_dir=str(tmp_path), loss_type=loss, beta=beta, precompute_ref_log_probs=False, **PLAIN
            ),
            processing_class=tokenizer_of(plain),
            train_dataset=Placeholder.rows(),
        )
        trainer.precompute_ref_logps = True
        found = trainer._compute_loss(trainer.model, batch, return_outputs=False)
        return float(found), {name: values[-1] for name, values in trainer._metrics["eval"].items()}

    return compute


class Placeholder:
    """A data set that TRL requires, but from which nothing is read."""

    @staticmethod
    def rows() -> Any:
        from datasets import Dataset

        return Dataset.from_list([{"prompt": "a", "chosen": "b", "rejected": "c"}])

    @staticmethod
    def labelled() -> Any:
        from datasets import Dataset

        return Dataset.from_list([{"prompt": "a", "completion": "b", "label": True}] * 8)


def tokenizer_of(model: Any) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model.config._name_or_path)


@pytest.mark.parametrize(("loss", "beta"), [("sigmoid", 0.1), ("sigmoid", 2.0), ("sigmoid_norm", 5.0)])
def test_dpo_is_trls_loss_and_figures_on_the_same_tokens(
    loss: str, beta: float, policy: Any, pack: Pack, reference: References, trl_dpo: Any
) -> None:
    ours = summed(made("dpo", beta=beta, loss=loss), policy, pack, [PAIRS], reference)
    known = torch.tensor(reference.of(ALL)).view(-1, 2)
    batch = {**padded(pack, ALL), "ref_chosen_logps": known[:, 0], "ref_rejected_logps": known[:, 1]}
    theirs, metrics = trl_dpo(loss, beta, batch)
    assert theirs != pytest.approx(math.log(2), abs=0.01)
    assert ours["loss"] == pytest.approx(theirs, rel=1e-5)
    for name in ("rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins"):
        assert ours[name] == pytest.approx(metrics[name], rel=1e-4, abs=1e-5), name


def test_orpos_odds_ratio_is_trls_and_its_likelihood_is_the_answers(policy: Any, plain: Any, pack: Pack) -> None:
    beta = 0.3
    ours = summed(made("orpo", beta=beta), policy, pack, [PAIRS], References(pack, None))
    batch = padded(pack, ALL)
    labels = batch["input_ids"].masked_fill(batch["completion_mask"] == 0, -100)
    with torch.no_grad():
        logits = plain(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    means = ORPOTrainer.get_batch_logps(logits, labels, average_log_prob=True)
    trainer: Any = SimpleNamespace(beta=beta, accelerator=SimpleNamespace(device="cpu"))
    ratios, chosen, rejected, _, _ = ORPOTrainer.odds_ratio_loss(trainer, means[:PAIRS], means[PAIRS:])
    likelihood = float(-means[:PAIRS].mean())
    assert ours["loss"] == pytest.approx(likelihood - float(ratios.mean()), rel=1e-5)
    assert ours["nll_loss"] == pytest.approx(likelihood, rel=1e-5)
    assert ours["rewards/margins"] == pytest.approx(float((chosen - rejected).mean()), rel=1e-4, abs=1e-6)


def test_orpo_is_all_of_trls_loss_where_a_prompt_is_one_token(tmp_path: Path, policy: Any, plain: Any) -> None:
    """TRL's likelihood includes prompts, so it is compared where no token of a prompt is predicted."""
    pack = write_pairs(tmp_path / "pairs", prompt=1)
    trainer: Any = SimpleNamespace(beta=0.1, accelerator=SimpleNamespace(device="cpu"), is_encoder_decoder=False)
    trainer.aux_loss_enabled, trainer.padding_value = False, 0
    trainer.get_batch_logps, trainer.concatenated_inputs = ORPOTrainer.get_batch_logps, lambda batch, **_: batch
    objective = made("orpo", beta=0.1)
    for window in ALL:
        batch = padded(pack, [window])
        labels = batch["input_ids"].masked_fill(batch["completion_mask"] == 0, -100)
        theirs = {
            "chosen_labels": labels[:1],
            "concatenated_input_ids": batch["input_ids"],
            "concatenated_attention_mask": batch["attention_mask"],
            "concatenated_labels": labels,
        }
        with torch.no_grad():
            chosen, rejected, _, _, likelihood = ORPOTrainer.concatenated_forward(trainer, plain, theirs)
            ratio = ORPOTrainer.odds_ratio_loss(trainer, chosen, rejected)[0]
            whole = whole_of_pack(pack)
            part: Part = objective.part(policy, micro_batch(pack, [window]), whole, None)
        assert float(part.loss) * PAIRS == pytest.approx(float(likelihood - ratio.mean()), rel=1e-5)


@pytest.mark.parametrize(("beta", "gamma"), [(2.0, 1.0), (10.0, 3.0), (0.5, 0.0)])
def test_simpo_is_trls_loss_and_figures_on_the_same_tokens(
    beta: float, gamma: float, policy: Any, plain: Any, pack: Pack
) -> None:
    ours = summed(made("simpo", beta=beta, gamma=gamma), policy, pack, [PAIRS], References(pack, None))
    batch = padded(pack, ALL)
    labels = batch["input_ids"].masked_fill(batch["completion_mask"] == 0, -100)
    with torch.no_grad():
        logits = plain(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    means = CPOTrainer.get_batch_logps(logits, labels, average_log_prob=True)
    trainer: Any = SimpleNamespace(
        beta=beta,
        simpo_gamma=gamma,
        loss_type="simpo",
        alpha=0.0,
        label_smoothing=0.0,
        accelerator=SimpleNamespace(device="cpu"),
    )
    losses, chosen, rejected = CPOTrainer.cpo_loss(trainer, means[:PAIRS], means[PAIRS:])
    assert ours["loss"] == pytest.approx(float(losses.mean()), rel=1e-5)
    assert ours["rewards/chosen"] == pytest.approx(float(chosen.mean()), rel=1e-4)
    assert ours["rewards/rejected"] == pytest.approx(float(rejected.mean()), rel=1e-4)
    assert ours["rewards/accuracies"] == pytest.approx(float((chosen > rejected).float().mean()))


@pytest.mark.parametrize(("beta", "desirable", "undesirable"), [(0.1, 1.0, 1.0), (0.5, 1.0, 1.0), (0.1, 2.0, 0.5)])
@pytest.mark.parametrize("scale", [0.02, 0.1])
def test_kto_is_trls_loss_and_figures_on_the_same_tokens(
    beta: float, desirable: float, undesirable: float, scale: float, folder: Path, tmp_path: Path
) -> None:
    pack = write_pairs(tmp_path / "unpaired", form="unpaired_preference")
    reference = References(pack, score(load(folder), pack))
    policy = moved(load(folder), scale)
    plain = moved(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), scale)
    settings = {"beta": beta, "desirable_weight": desirable, "undesirable_weight": undesirable}
    ours = summed(made("kto", **settings), policy, pack, [3, 4], reference)
    batch, known = padded(pack, ALL), torch.tensor(reference.of(ALL)).view(-1, 2)
    labels = torch.tensor([int(pack.read([window]).pieces[0]) < 2 for window in ALL])
    theirs = {name: tensor[:PAIRS] for name, tensor in batch.items()}
    theirs |= {f"KL_{name}": tensor[PAIRS:] for name, tensor in batch.items()}
    theirs |= {"label": labels, "ref_logps": known[:, 0], "ref_KL_logps": known[:, 1]}
    trainer = KTOTrainer(
        model=plain,
        args=KTOConfig(output_dir=str(tmp_path), precompute_ref_log_probs=False, **PLAIN, **settings),
        processing_class=tokenizer_of(plain),
        train_dataset=Placeholder.labelled(),
    )
    trainer.precompute_ref_logps = True
    with torch.no_grad():
        found = trainer._compute_loss(trainer.model, theirs, return_outputs=False)
    metrics = {name: values[-1] for values_of in trainer._metrics.values() for name, values in values_of.items()}
    assert ours["loss"] == pytest.approx(float(found), rel=1e-5)
    for name in ("rewards/chosen", "rewards/rejected", "rewards/margins", "kl"):
        assert ours[name] == pytest.approx(metrics[name], rel=1e-4, abs=1e-5), name


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
