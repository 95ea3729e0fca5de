"""Documents have the same loss packed and alone, to the bit; if isolation is switched off, the comparison says so."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ft_assets.workers.packs.format import Layout, Pack, PackWriter
from ft_assets.workers.packs.isolation.attention import document_attention
from ft_assets.workers.packs.isolation.choice import choose
from ft_assets.workers.packs.isolation.comparison import Comparison, DocumentLosses, Leak
from ft_assets.workers.packs.isolation.guard import guard
from ft_assets.workers.packs.isolation.leak_check import compare, tolerance_of
from ft_assets.workers.packs.isolation.proof import examine_isolation
from ft_assets.workers.packs.isolation.tiny import VOCABULARY, tiny_model
from ft_assets.workers.training.train import train
from ft_assets.workers.training.training_loop import TrainingLoop, first_shared
from ft_resources.errors import BadBase
from ft_resources.outcomes import Outcome
from tests.workers.packs.made import made_spool
from tests.workers.training.conftest import Bench, content, make_bench, write_pack

WIDE = {"hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 30, "intermediate_size": 4096}
GROUPED = {**WIDE, "num_key_value_heads": 4, "vocab_size": 32_000, "max_position_embeddings": 4096}
LONG = {"rope_type": "longrope", "short_factor": [1.0] * 32, "long_factor": [4.0] * 32}
LONG |= {"rope_theta": 10_000.0}
SUPPORTED: dict[str, dict[str, Any]] = {
    "llama": GROUPED,
    "qwen2": GROUPED,
    "qwen3": {**GROUPED, "head_dim": 128},
    # A token sees itself and the six before it, fewer than most documents have.
    "mistral": {**GROUPED, "sliding_window": 7},
    "phi3": {**GROUPED, "pad_token_id": 0, "auto_map": {"AutoConfig": "own.OwnConfig"}},
    "gemma": {**GROUPED, "head_dim": 256},
    "gemma3_text": {**GROUPED, "sliding_window": 7, "head_dim": 256},
    "gpt_neox": WIDE,
    "gpt2": {"n_embd": 768, "n_head": 12, "n_layer": 12},
}


def config_of(kind: str, **settings: Any) -> dict[str, Any]:
    return {"model_type": kind, **settings}


def guarded(kind: str, **settings: Any) -> Any:
    model = tiny_model(config_of(kind, **(settings or SUPPORTED[kind])))
    guard(model)
    return model


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    return write_pack(tmp_path_factory.mktemp("isolation") / "pack", "train", 40)


@pytest.fixture
def llama() -> Any:
    return guarded("llama")


@pytest.mark.parametrize("kind", SUPPORTED)
def test_documents_lose_the_same_packed_and_alone_to_the_bit(kind: str, pack: Pack) -> None:
    comparison = compare(guarded(kind), pack, [0, 1, 2])
    assert len(comparison.documents) == len(pack.read([0, 1, 2]).examples) > 8
    assert comparison.bit_equal
    assert comparison.tolerance == 1e-5
    assert comparison.passed
    assert comparison.largest_absolute == 0.0


def cache_again(model: Any, pack: Pack) -> None:
    """What a config with use_cache did to packed rows before there was a guard."""
    _unguard(model)
    model.set_attn_implementation("sdpa")
    model.register_forward_pre_hook(lambda _, args, kwargs: (args, {**kwargs, "use_cache": True}), with_kwargs=True)


def boundaries_forgotten(model: Any, pack: Pack) -> None:
    _unguard(model)

    def forget(_: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        kept = {name: value for name, value in kwargs.items() if name != "cu_seq_lens_q"}
        return args, {**kept, "use_cache": True}

    model.register_forward_pre_hook(forget, with_kwargs=True)


def one_causal_row(model: Any, pack: Pack) -> None:
    _unguard(model)
    model.set_attn_implementation("sdpa")

    def mask(_: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, {**kwargs, "attention_mask": torch.ones_like(kwargs["input_ids"])}

    model.register_forward_pre_hook(mask, with_kwargs=True)


def layer_that_mixes(model: Any, pack: Pack) -> None:
    """A layer as a convolution would be: each token gets some of the one before it, whoever wrote that."""

    def mix(_: Any, args: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        (hidden,) = args
        return (hidden + torch.nn.functional.pad(hidden, (0, 0, 1, 0))[:, :-1],)

    model.model.layers[0].mlp.register_forward_pre_hook(mix)


def _unguard(model: Any) -> None:
    for module in model.modules():
        module._forward_pre_hooks.clear()
        module._forward_pre_hooks_with_kwargs.clear()


@pytest.mark.parametrize("switch_off", [cache_again, one_causal_row, layer_that_mixes])
def test_the_comparison_fails_where_isolation_is_switched_off(
    switch_off: Callable[[Any, Pack], None], llama: Any, pack: Pack
) -> None:
    assert compare(llama, pack, [0, 1]).passed
    switch_off(llama, pack)
    comparison = compare(llama, pack, [0, 1])
    assert not comparison.passed
    assert comparison.largest_relative > 0.01
    worst = comparison.worst
    assert worst is not None
    with pytest.raises(Leak, match=worst.example[:12]) as caught:
        comparison.require()
    assert caught.value.where == f"row {worst.row} of the upload"
    # The first document has nothing before it that could leak into it.
    assert comparison.documents[0].relative < 1e-5


def test_boundaries_that_are_forgotten_are_missed_even_without_the_guard(llama: Any, pack: Pack) -> None:
    boundaries_forgotten(llama, pack)
    with pytest.raises(BadBase, match="cu_seq_lens_q is missing"):
        compare(llama, pack, [0, 1])


def test_the_guard_alone_keeps_a_cache_from_opening_the_leak_again(llama: Any, pack: Pack) -> None:
    llama.config.use_cache = True
    llama.register_forward_pre_hook(
        lambda _, args, kwargs: (args, {**kwargs, "use_cache": True}), with_kwargs=True, prepend=True
    )
    assert compare(llama, pack, [0, 1]).bit_equal


def test_half_precision_shows_a_leak_above_its_tolerance(llama: Any, pack: Pack) -> None:
    llama.to(torch.bfloat16)
    sound = compare(llama, pack, [0, 1])
    assert sound.passed
    assert sound.tolerance == tolerance_of(llama) > 0
    one_causal_row(llama, pack)
    assert not compare(llama, pack, [0, 1]).passed


def test_rounding_is_allowed_less_the_more_tokens_are_summed() -> None:
    def passes(learned: int) -> bool:
        losses = DocumentLosses(example="a" * 64, row=3, piece=0, learned=learned, packed=101.0, alone=100.0)
        return Comparison(documents=(losses,), tolerance=2e-2).passed

    assert passes(1)
    assert not passes(100)


def test_experts_are_allowed_rounding_only(pack: Pack) -> None:
    model = guarded("mixtral", **GROUPED)
    comparison = compare(model, pack, [0, 1])
    assert comparison.passed
    assert 0 < comparison.tolerance <= 1e-4


def test_both_answers_of_a_preference_example_are_compared(tmp_path: Path, llama: Any) -> None:
    lengths = np.array([9, 12, 15, 7])
    spool = made_spool(tmp_path / "spool", lengths, example=[0, 0, 1, 1])
    layout = Layout(order=np.arange(4), window_offsets=np.array([0, 2, 4]))
    PackWriter(tmp_path / "pack", "train", "preference", 16).write(spool, layout)
    comparison = compare(llama, Pack.open(tmp_path / "pack", "train"), [0, 1])
    assert [(each.row, each.piece) for each in comparison.documents] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert comparison.bit_equal


def test_a_limit_of_documents_takes_the_last_and_others_spread(llama: Any, pack: Pack) -> None:
    every = compare(llama, pack, [0, 1, 2]).documents
    few = compare(llama, pack, [0, 1, 2], documents=3).documents
    assert few[-1] == every[-1]
    assert len(few) == 3
    assert set(few) <= set(every)


def test_losses_that_are_no_numbers_fail() -> None:
    document = DocumentLosses(example="a" * 64, row=3, piece=0, learned=1, packed=float("nan"), alone=1.0)
    comparison = Comparison(documents=(document,), tolerance=1e-2)
    assert not comparison.passed
    assert json.loads(json.dumps(comparison.figures(), allow_nan=False))["largest_relative"] == "inf"


def test_comparing_leaves_modes_gradients_and_random_numbers_alone(llama: Any, pack: Pack) -> None:
    llama.requires_grad_(True).train()
    llama.model.layers[0].eval()
    modes = [module.training for module in llama.modules()]
    llama.lm_head.weight.grad = torch.ones_like(llama.lm_head.weight)
    before = torch.get_rng_state()
    compare(llama, pack, [0])
    assert [module.training for module in llama.modules()] == modes
    assert torch.equal(torch.get_rng_state(), before)
    assert llama.lm_head.weight.grad.eq(1).all()
    assert all(parameter.grad is None for name, parameter in llama.named_parameters() if name != "lm_head.weight")


def test_a_tiny_model_is_the_same_each_time_and_moves_no_generator() -> None:
    before = torch.get_rng_state()
    one, other = tiny_model(config_of("qwen2", **GROUPED)), tiny_model(config_of("qwen2", **GROUPED))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert one.config.vocab_size == VOCABULARY
    assert one.config.num_attention_heads == 4 * one.config.num_key_value_heads
    assert one.config.num_hidden_layers == 2


def test_positions_that_depend_on_the_rows_longest_document_are_refused_beyond_their_limit(tmp_path: Path) -> None:
    scaled = {"pad_token_id": 0, "rope_parameters": LONG, "original_max_position_embeddings": 64}
    config = config_of("phi3", **GROUPED, **scaled)
    with pytest.raises(BadBase, match="more than 64 tokens") as caught:
        tiny_model(config, max_length=65)
    assert "at most 64" in caught.value.remedy
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert [choose(tmp_path, max_length=length).mode for length in (64, 65)] == ["packed", "apart"]
    model = tiny_model(config, max_length=64)
    guard(model)
    pack = write_pack(tmp_path / "long", "train", 8, longest=100)
    # Measured as well: a document of over 64 tokens changes the positions of short ones beside it.
    assert not compare(model, pack, range(len(pack))).passed


def test_the_doctor_s_evidence_names_what_is_wrong(tmp_path: Path, pack: Pack) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(config_of("llama", **GROUPED)))
    found = examine_isolation(config, pack)
    assert found["passed"]
    assert found["figures"]["bit_equal"]
    assert found["figures"]["documents"] > 6
    config.write_text(json.dumps(config_of("mamba")))
    found = examine_isolation(config, pack)
    assert found["passed"]
    assert "run apart" in found["detail"]
    assert "linear_attention" in found["detail"]
    config.write_text(json.dumps(config_of("t5")))
    assert not examine_isolation(config, pack)["passed"]


@pytest.mark.usefixtures("registered_again")
def test_the_doctor_sees_a_leak_and_names_its_row(tmp_path: Path, pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(*args: Any, cu_seq_lens_q: torch.Tensor, **kwargs: Any) -> Any:
        whole = torch.tensor([0, int(cu_seq_lens_q[-1])], dtype=torch.int32)
        return document_attention(*args, cu_seq_lens_q=whole, **kwargs)

    config = tmp_path / "config.json"
    config.write_text(json.dumps(config_of("llama", **GROUPED)))
    # The architecture was chosen to be packed before, by a trial on documents of its own.
    assert examine_isolation(config, pack)["passed"]
    monkeypatch.setattr("ft_assets.workers.packs.isolation.attention.document_attention", careless)
    found = examine_isolation(config, pack)
    assert not found["passed"]
    assert found["detail"].startswith("row ")
    assert "change each other" in found["detail"]


def test_long_documents_are_examined_by_their_ends(tmp_path: Path) -> None:
    spool = made_spool(tmp_path / "spool", np.array([3000, 2500, 1200, 700]))
    layout = Layout(order=np.arange(4), window_offsets=np.array([0, 2, 4]))
    PackWriter(tmp_path / "pack", "train", "chat", 6000).write(spool, layout)
    pack = Pack.open(tmp_path / "pack", "train")
    config = tmp_path / "config.json"
    config.write_text(json.dumps(config_of("llama", **GROUPED)))
    assert examine_isolation(config, pack)["figures"]["bit_equal"]


@pytest.mark.training
def test_training_is_the_same_to_the_byte_with_and_without_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = train(make_bench(tmp_path / "compared", max_steps=2).context())
    monkeypatch.setattr(TrainingLoop, "_prove_isolation", lambda self: None)
    plain = train(make_bench(tmp_path / "plain", max_steps=2).context())
    assert content(compared) == content(plain)
    assert compared.facts["isolation"]["bit_equal"]
    assert compared.facts["isolation"]["documents"] == 3
    assert json.loads((compared.folder / "report" / "isolation.json").read_text()) == compared.facts["isolation"]


def test_training_stops_before_its_first_step_where_documents_leak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ft_assets.worker import _classify
    from ft_assets.workers.training import model as models

    load = models.load_base

    def leaking(*args: Any, **kwargs: Any) -> Any:
        loaded = load(*args, **kwargs)
        layer_that_mixes(loaded, None)  # type: ignore[arg-type]
        return loaded

    monkeypatch.setattr(models, "load_base", leaking)
    bench: Bench = make_bench(tmp_path, max_steps=2)
    context = bench.context()
    with pytest.raises(Leak, match="change each other") as caught:
        train(context)
    assert _classify(caught.value, bench.store, bench.spec(), stopped=False) is Outcome.USER_ERROR
    assert not list(bench.store.entries(f"{bench.spec().attempt_path}/saves"))


def test_the_row_compared_before_training_is_one_that_documents_share(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    windows = first_shared(bench.pack, bench.order, 8)
    assert len(windows) == 2
    assert set(windows) <= set(next(iter(bench.order.read())).windows.tolist())


@pytest.mark.training
def test_the_doctor_imports_torch_and_one_architecture(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(config_of("llama", **GROUPED)))
    write_pack(tmp_path / "pack", "train", 12)
    code = (
        "import sys; from pathlib import Path; from ft_assets.workers.packs.format import Pack;"
        "from ft_assets.workers.packs.isolation.proof import examine_isolation;"
        f"pack = Pack.open(Path({str(tmp_path / 'pack')!r}), 'train');"
        f"assert examine_isolation(Path({str(config)!r}), pack)['passed'];"
        "print([name for name in sys.modules if name.startswith('transformers.models.') and name.count('.') == 2]"
        " + [name for name in ('trl', 'peft', 'datasets', 'deepspeed', 'bitsandbytes') if sys.modules.get(name)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert sorted(eval(done.stdout)) == ["transformers.models.auto", "transformers.models.llama"]
