"""Two ranks also train like one process with pairs of answers, a base in 4 bits, or Adafactor."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from ft_assets.workers.training.failing_example import forward_alone
from ft_assets.workers.training.train import train
from ft_resources.errors import BadData
from ft_resources.worker_context import WorkResult
from tests.workers.training.conftest import content, make_bench, publish
from tests.workers.training.test_train import figures
from tests.workers.training.test_warm_start import continuing, exported
from tests.workers.training.variety import make_variety

pytestmark = [pytest.mark.training, pytest.mark.usefixtures("quick")]


@pytest.mark.parametrize(
    ("method", "variant", "sharding", "optimizer", "rounding", "together"),
    [
        ("dpo", "full", "none", "adafactor", 1e-4, 1),
        ("orpo", "full", "fsdp", "adamw", 1e-4, 1),
        ("kto", "lora", "none", "adamw", 1e-4, 1),
        # Adapters of bfloat16: a gradient's last bit moves a weight by 2^-8 of itself.
        pytest.param("sft", "qlora", "none", "adamw", 0.05, 1, marks=pytest.mark.long),
        ("sft", "qlora", "none", "adamw", 0.05, 2),
        ("cpt", "lora", "none", "adamw", 1e-4, 2),
    ],
)
def test_two_ranks_have_the_figures_and_weights_of_one(
    tmp_path: Path, method: str, variant: str, sharding: str, optimizer: str, rounding: float, together: int
) -> None:
    settings = {"optimizer": optimizer, "max_steps": 3, "learning_rate": 1e-3}
    alone = train(make_variety(tmp_path / "alone", method, variant, **settings).context())
    bench = make_variety(tmp_path / "two", method, variant, **settings)
    bench.runtime |= {"processes": 2, "sharding": sharding, "context_parallel": together}
    both = train(bench.context())
    assert content(alone)["ledger.jsonl"] == content(both)["ledger.jsonl"]
    for mine, theirs in zip(figures(alone), figures(both), strict=True):
        assert mine == pytest.approx(theirs, rel=rounding, abs=rounding)
    (mine, theirs) = (load_file(next((each.folder / "final").glob("*.safetensors"))) for each in (alone, both))
    assert mine.keys() == theirs.keys()
    assert all(torch.allclose(mine[name], theirs[name], atol=rounding) for name in mine)


@pytest.mark.parametrize("sharding", [pytest.param("none", marks=pytest.mark.long), "fsdp"])
def test_two_ranks_continue_an_adapter_where_one_does(tmp_path: Path, sharding: str) -> None:
    def started(root: Path, **runtime: Any) -> WorkResult:
        first = make_variety(root, "sft", "lora", max_steps=3, learning_rate=1e-3)
        bench = continuing(first, exported(first, train(first.context())))
        bench.runtime = {**bench.runtime, **runtime}
        return train(bench.context())

    alone, both = started(tmp_path / "alone"), started(tmp_path / "two", processes=2, sharding=sharding)
    assert not both.facts["resumed"]
    for mine, theirs in zip(figures(alone), figures(both), strict=True):
        assert mine == pytest.approx(theirs, rel=1e-3, abs=1e-3)
    mine, theirs = (load_file(each.folder / "final" / "adapter_model.safetensors") for each in (alone, both))
    assert mine.keys() == theirs.keys()
    assert all(torch.allclose(mine[name], theirs[name], atol=1e-4) for name in mine)


def test_a_malformed_document_of_a_model_in_shards_is_named_and_no_rank_waits_for_ever(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, variant="full", global_batch_size=4, micro_batch_size=1)
    damaged = tmp_path / "pack"
    window = int(next(iter(bench.order.read())).windows[0])
    token = int(bench.pack.window_lengths[:window].sum()) + 1
    ids = np.load(damaged / "train" / "00000.input_ids.npy")
    ids[token] = 10**6
    np.save(damaged / "train" / "00000.input_ids.npy", ids)
    bench.inputs["pack"] = publish(bench.store, damaged.rename(tmp_path / "damaged"), "token_pack", "acme")
    bench.runtime |= {"processes": 2, "sharding": "fsdp"}
    step = bench.pack.read(next(iter(bench.order.read())).windows.tolist())
    guilty, *others = (bench.pack.example_id(int(example)) for example in step.examples)
    with pytest.raises(BadData, match="is malformed in the token pack") as caught:
        train(bench.context())
    assert guilty in caught.value.what
    assert not any(other in str(caught.value) for other in others)


def test_where_ranks_hold_a_model_together_a_document_is_looked_at_and_not_computed(tmp_path: Path) -> None:
    """One rank's forward pass would wait for the others, which are not in theirs."""
    window = make_bench(tmp_path).pack.read([0])
    shape = SimpleNamespace(vocab_size=int(window.input_ids.max()) + 1)
    model = SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: shape))
    forward_alone(model, window, computes=False)
    with pytest.raises(AttributeError, match="modules"):
        forward_alone(model, window, computes=True)
    shape.vocab_size -= 1
    with pytest.raises(ValueError, match="a token is outside the model's vocabulary"):
        forward_alone(model, window, computes=False)
