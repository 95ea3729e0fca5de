"""Each method's loss and figures are those of TRL's own code on the same tokens, whatever the micro-batches."""

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import pad
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer
from trl.experimental.cpo import CPOTrainer
from trl.experimental.orpo import ORPOTrainer

from ft_assets.workers.packs.format import Pack
from ft_assets.workers.packs.isolation.batches import micro_batch
from ft_assets.workers.training.methods.objective import Part
from ft_assets.workers.training.reader import References
from ft_assets.workers.training.reference import score
from ft_assets.workers.training.validation import whole_of_pack
from tests.workers.training.method_world import ALL, PAIRS, load, made, moved, summed, write_pairs
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
