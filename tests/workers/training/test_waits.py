"""The host waits for the device once per optimizer step, and never within a forward or backward pass."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ft_assets.workers.packs.format import Pack
from ft_assets.workers.packs.isolation.batches import micro_batch
from ft_assets.workers.packs.isolation.choice import choose
from ft_assets.workers.packs.isolation.forward import token_losses
from ft_assets.workers.training.methods.objective import Whole
from ft_assets.workers.training.validation import validation_loss
from tests.workers.packs.isolation.test_apart import TEN, documents
from tests.workers.training.conftest import make_bench
from tests.workers.training.families import FAMILIES
from tests.workers.training.method_world import made, write_pairs
from tests.workers.training.test_trainer import built
from tests.workers.training.waits import Reads, on_meta

PACKED = [kind for kind in TEN if FAMILIES[kind].mode == "packed"]


@pytest.fixture(autouse=True)
def meta_has_no_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of other devices PyTorch knows whether autocast is on."""
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device=None: False)


def model_of(kind: str, mode: Any, folder: Path, device: str = "meta") -> Any:
    family = FAMILIES[kind]
    family.config().save_pretrained(folder)
    choice = choose(folder, mode)
    # Experts' kernels want half precision.
    model = family.model(**choice.loading).bfloat16().to(device)
    choice.prepare(model)
    return model


# Apart, what differs by architecture is attention, experts and states.
@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        *((each, "packed") for each in PACKED),
        *(
            pytest.param(each, "apart", marks=() if each in ("llama", "mixtral", "qwen3_next") else pytest.mark.long)
            for each in TEN
        ),
    ],
)
def test_no_forward_or_backward_pass_waits(kind: str, mode: Any, tmp_path: Path) -> None:
    token_losses(model_of(kind, mode, tmp_path), on_meta(documents())).sum().backward()


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pack]:
    folder = tmp_path_factory.mktemp("pairs")
    return {form: write_pairs(folder / form, form=form) for form in ("preference", "unpaired_preference")}


@pytest.mark.parametrize("mode", ["packed", "apart"])
@pytest.mark.parametrize("method", ["sft", "dpo", "orpo", "simpo", "kto"])
def test_no_method_waits_for_a_micro_batch(method: str, mode: Any, pairs: dict[str, Pack], tmp_path: Path) -> None:
    pack = pairs["unpaired_preference" if method == "kto" else "preference"]
    model, objective = model_of("llama", mode, tmp_path), made(method)
    batch = on_meta(micro_batch(pack, range(4)))
    known = torch.zeros(batch.documents).numpy()
    whole = Whole(learned=batch.learned, examples=4)
    if objective.sums:
        with torch.no_grad():
            whole = Whole(learned=batch.learned, examples=4, surveyed=objective.survey(model, batch, known))
    objective.part(model, batch, whole, known).loss.backward()


@pytest.mark.parametrize("method", ["sft", "kto"])
def test_a_validation_of_several_micro_batches_is_waited_for_once(
    method: str, pairs: dict[str, Pack], tmp_path: Path
) -> None:
    """And has the value of a sum by the host."""
    pack = pairs["unpaired_preference" if method == "kto" else "preference"]
    model, objective = model_of("llama", "packed", tmp_path, "cpu").eval(), made(method)
    parts = []

    def part(*args: Any) -> Any:
        parts.append(type(objective).part(objective, *args))
        return parts[-1]

    objective.part = part  # type: ignore[method-assign]
    known = np.zeros(pack.index.documents, dtype=np.float32)
    with Reads() as reads:
        found = validation_loss(model, objective, pack, torch.device("cpu"), 2, lambda: None, known)
    assert reads.count == 1
    assert len(parts) > 2
    assert found == sum(float(each.loss) for each in parts)


@pytest.mark.training
def test_a_step_of_several_micro_batches_is_waited_for_once(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, documents=24, epochs=3, global_batch_size=4, micro_batch_size=1)
    trainer = built(bench)
    with Reads() as reads:
        trainer.train()
    steps = trainer.last.step.number
    assert steps > 2
    # One more at the end, for a mean loss of Transformers'.
    assert reads.count == steps + 1
