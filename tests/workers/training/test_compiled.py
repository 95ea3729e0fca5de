"""Compiled layers learn what uncompiled ones learn, are compiled a few times only, and fail without losing the run."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from transformers import LlamaConfig, LlamaForCausalLM

from ft_assets.control.auto.compiling import COMPILED
from ft_assets.settings.recipe.training import LoraSettings
from ft_assets.workers.packs.format import Window
from ft_assets.workers.packs.isolation import attention
from ft_assets.workers.packs.isolation.attention import ATTENTION, register
from ft_assets.workers.packs.isolation.batches import MicroBatch, as_row
from ft_assets.workers.packs.isolation.forward import token_losses
from ft_assets.workers.packs.isolation.guard import guard
from ft_assets.workers.packs.isolation.tiny import tiny_model
from ft_assets.workers.training import compiled
from ft_assets.workers.training.compiled import compile_layers
from ft_assets.workers.training.float8 import multiply_in_float8
from ft_assets.workers.training.model import with_adapters
from ft_assets.workers.training.train import train
from ft_assets.workers.training.variants.fused_lora import join_adapters
from tests.workers.packs.corners import corners
from tests.workers.packs.isolation import flash_on_cpu
from tests.workers.packs.isolation.test_isolation import config_of
from tests.workers.training.conftest import Bench, content, make_bench
from tests.workers.training.families import FAMILIES, family_bench
from tests.workers.training.test_train import run_stopped_at

pytestmark = pytest.mark.training
LAYERS, VOCABULARY = 3, 60
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "vocab_size": VOCABULARY,
    "attn_implementation": ATTENTION,
}


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    torch.compiler.reset()
    counters.clear()
    with torch._dynamo.config.patch(suppress_errors=False, recompile_limit=8):
        yield


@pytest.fixture
def _fused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In float32 what a GPU runs in half precision."""
    flash_on_cpu.install()
    monkeypatch.setattr(attention, "applies", lambda *_: True)


def compile_by(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Real graphs, computed otherwise, as a C++ compiler takes a minute: "aot_eager" has those of backward passes too,
    "eager" runs the captured operators."""
    plain = torch.compile
    monkeypatch.setattr(torch, "compile", lambda *args, **kwargs: plain(*args, **kwargs, backend=backend))


def made(*, lora: bool = False, recompute: bool = False, float8: bool = False) -> Any:
    torch.manual_seed(0)
    register()
    model: Any = LlamaForCausalLM(LlamaConfig(**SIZES))
    guard(model)
    if float8:
        multiply_in_float8(model, emulated=True)
    if lora:
        model = with_adapters(model, LoraSettings(rank=4, alpha=8))
        join_adapters(model)
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight, std=0.02)
    if recompute:
        model.activation_checkpointing_enable({"use_reentrant": False})
        if lora:
            model.enable_input_require_grads()
    return model.train()


def rows(*documents: int) -> list[MicroBatch]:
    """A row for each number of documents, all of different lengths."""
    draws = np.random.RandomState(1)
    found = []
    for count in documents:
        lengths = draws.randint(3, 20, size=count)
        ids = draws.randint(VOCABULARY, size=lengths.sum()).astype(np.int32)
        pieces = np.zeros(count, np.int32)
        learned = np.ones(len(ids), np.bool_)
        found.append(
            as_row(
                Window(
                    input_ids=ids, learned=learned, document_lengths=lengths, examples=np.arange(count), pieces=pieces
                )
            )
        )
    return found


def stepped(model: Any, batches: list[MicroBatch]) -> list[float]:
    """Losses of a few steps of gradient descent."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.SGD(weights, lr=0.5)
    losses = []
    for batch in batches:
        loss = token_losses(model, batch).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.usefixtures("_fused")
@pytest.mark.parametrize(
    ("lora", "recompute"),
    [
        # Its graph, in both directions: with 8-bit floats below.
        pytest.param(False, False, id="full", marks=pytest.mark.long),
        pytest.param(True, False, id="lora"),
        pytest.param(True, True, id="lora, recomputed", marks=pytest.mark.long),
        pytest.param(False, True, id="full, recomputed", marks=pytest.mark.long),
    ],
)
def test_with_fused_attention_a_layer_is_one_graph_for_all_layers_and_lengths(
    monkeypatch: pytest.MonkeyPatch, lora: bool, recompute: bool
) -> None:
    """Two with adapters: the first layer's input needs no gradient, unless it is recomputed."""
    # Backward graphs of adapters: with 8-bit floats below.
    compile_by(monkeypatch, "eager" if lora else "aot_eager")
    batches = rows(3, 5, 2, 4)
    expected = stepped(made(lora=lora, recompute=recompute), batches)
    model = made(lora=lora, recompute=recompute)
    names = list(model.state_dict())
    assert len(compile_layers(model)) == LAYERS
    assert stepped(model, batches) == pytest.approx(expected, abs=1e-5)
    assert not counters["graph_break"]
    assert counters["stats"]["unique_graphs"] == (2 if lora and not recompute else 1)
    assert list(model.state_dict()) == names
    if lora and not recompute:
        # Rows of one document and validation are variants of their own.
        stepped(model, rows(1))
        with torch.no_grad():
            for batch in rows(3, 1, 4):
                token_losses(model.eval(), batch)
        assert not counters["graph_break"]
        assert counters["stats"]["unique_graphs"] <= 6


@pytest.mark.usefixtures("_fused")
@pytest.mark.parametrize("family", corners(COMPILED, ("gemma3_text", "qwen3")))
def test_layers_of_the_families_that_auto_compiles_are_one_graph(monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    """Two where layers take turns: with a sliding window and without."""
    compile_by(monkeypatch, "eager")
    model = tiny_model(config_of(family)).train()
    guard(model)
    batches = rows(3, 5, 2)
    expected = [token_losses(model, batch).mean().item() for batch in batches]
    assert len(compile_layers(model)) == len(model.model.layers)
    assert [token_losses(model, batch).mean().item() for batch in batches] == pytest.approx(expected, abs=1e-5)
    assert not counters["graph_break"]
    assert counters["stats"]["unique_graphs"] == (2 if family == "gemma3_text" else 1)


def test_documents_that_are_computed_one_by_one_divide_a_graph_and_no_length_adds_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compile_by(monkeypatch, "eager")
    batches = rows(3, 5, 2, 4)
    expected = stepped(made(), batches)
    model = made()
    compile_layers(model)
    losses = stepped(model, batches[:2])
    graphs = counters["stats"]["unique_graphs"]
    assert [*losses, *stepped(model, batches[2:])] == pytest.approx(expected, abs=1e-5)
    assert counters["stats"]["unique_graphs"] == graphs
    assert counters["graph_break"]


@pytest.mark.usefixtures("_fused")
@pytest.mark.parametrize(
    ("lora", "products"),
    # Of input and weight; or of input, and of both inputs and both matrices of the adapter.
    [pytest.param(True, 7 * 5, id="lora", marks=pytest.mark.long), pytest.param(False, 7 * 2, id="full")],
)
def test_layers_in_8_bit_floats_are_one_graph_without_the_gradient_of_frozen_weights(
    monkeypatch: pytest.MonkeyPatch, lora: bool, products: int
) -> None:
    """Uncompiled, torchao computes that gradient and throws it away."""
    pytest.importorskip("torchao.float8", reason="torchao is not installed: the extra float8")
    backward = []

    def counted(graph: Any, inputs: Any) -> Any:
        backward.append(sum("mm" in str(node.target) for node in graph.graph.nodes))
        return make_boxed_func(graph.forward)

    backend = aot_autograd(fw_compiler=lambda graph, _: make_boxed_func(graph.forward), bw_compiler=counted)
    compile_by(monkeypatch, backend)
    batches = rows(3, 5, 2, 4)
    expected = stepped(made(lora=lora, float8=True), batches)
    model = made(lora=lora, float8=True)
    compile_layers(model)
    assert stepped(model, batches) == pytest.approx(expected, abs=1e-5)
    assert not counters["graph_break"]
    assert counters["stats"]["unique_graphs"] == (2 if lora else 1)
    assert max(backward) == products


def bench_of(root: Path) -> Bench:
    """A full training of one layer: each variant of a layer takes seconds to compile."""
    family = replace(FAMILIES["llama"], settings={"num_hidden_layers": 1})
    return family_bench(root, family, variant="full", global_batch_size=4, micro_batch_size=2)


@pytest.mark.usefixtures("_fused")
@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.long)])
def test_a_compiled_training_learns_the_same_and_goes_on_from_a_save_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], backend: str
) -> None:
    """The last with the real compiler."""
    compile_by(monkeypatch, backend)
    plain, quiet, bench = (bench_of(tmp_path / name) for name in ("plain", "quiet", "stopped"))
    expected = train(plain.context())
    for each in (quiet, bench):
        each.runtime["compile"] = True
    assert quiet.request.address == plain.request.address
    result = train(quiet.context())
    assert "compiling took" in capfd.readouterr().out
    assert counters["stats"]["unique_graphs"] > 0
    assert result.facts["train_loss"] == pytest.approx(expected.facts["train_loss"], abs=1e-5)
    torch.compiler.reset()
    run_stopped_at(bench, 1, 2)
    torch.compiler.reset()
    resumed = train(bench.context(2))
    assert resumed.facts["resumed"] == [{"attempt": 1, "step": 2}]
    assert content(resumed) == content(result)


def test_a_training_that_cannot_be_compiled_goes_on_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    expected = content(train(make_bench(tmp_path / "plain", documents=20).context()))
    bench = make_bench(tmp_path / "broken", documents=20)
    bench.runtime["compile"] = True

    def fail(graph: Any, inputs: Any) -> Any:
        raise RuntimeError("no C compiler")

    compile_by(monkeypatch, fail)
    assert content(train(bench.context())) == expected
    said = capfd.readouterr().out
    assert "the layers cannot be compiled, so training continues without" in said
    assert "no C compiler" in said


def test_a_layer_computes_as_before_once_it_is_uncompiled() -> None:
    model = made()
    expected = [weight.clone() for weight in model.parameters()]
    layers = compile_layers(model)
    compiled.uncompile(layers)
    assert not any("forward" in vars(layer) for layer in layers)
    stepped(model, rows(3))
    assert not counters["stats"]
    assert not all(torch.equal(*pair) for pair in zip(model.parameters(), expected, strict=True))
