"""The GPU benchmark without a GPU: what it counts, what it tries, and that all of it runs at tiny size."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu
from benchmarks.gpu_cases import CASES, Case, changed, ladder, tiny
from ft_assets.settings.gpus import CATALOGUE

KEYS = ["full_8b_tok_s", "full_8b_mfu", "lora_8b_tok_s", "qlora_8b_tok_s", "full_1b_tok_s", "vs_trl", "peak_off"]
BY_NAME = {case.name: case for case in CASES}


def measured(tokens_s: float, document_length: float = 4096.0) -> dict[str, Any]:
    return {"tokens_s": tokens_s, "peak_bytes": 2**30, "document_length": document_length}


def test_the_shapes_have_the_sizes_of_their_models() -> None:
    assert BY_NAME["full_8b"].architecture.parameters == 8_030_261_248
    assert BY_NAME["full_1b"].architecture.parameters == 1_235_814_400


def test_a_token_of_8b_costs_6_operations_a_parameter_but_for_the_embedding_and_half_the_attention() -> None:
    matrices = 8_030_261_248 - 128_256 * 4096 - 65 * 4096
    attention = 3 * 32 * 4 * 4096 * 4096 / 2
    assert BY_NAME["full_8b"].flops(1, 4096) == 6 * matrices + attention
    adapters = 16 * 32 * (2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 14336))
    assert BY_NAME["lora_8b"].flops(1, 4096) == 4 * matrices + 6 * adapters + attention


def test_the_goal_of_8b_is_about_60_percent_of_an_h200() -> None:
    share = BY_NAME["full_8b"].mfu(12_500, 4096, CATALOGUE["H200"])
    assert share == pytest.approx(0.61, abs=0.005)


def test_memory_is_saved_by_recomputation_first_then_by_another_optimizer_then_by_smaller_batches() -> None:
    case = replace(BY_NAME["full_8b"], micro=2, accumulate=4)
    tried = [(each.optimizer, each.recompute, each.micro, each.accumulate) for each in ladder(case)]
    assert tried == [
        ("adamw", False, 2, 4),
        ("adamw", True, 2, 4),
        ("adamw_8bit", False, 2, 4),
        ("adamw_8bit", True, 2, 4),
        ("adafactor", False, 2, 4),
        ("adafactor", True, 2, 4),
        ("adafactor", True, 1, 8),
    ]
    assert {each.optimizer for each in ladder(BY_NAME["lora_8b"])} == {"adamw"}


def test_a_case_without_memory_is_tried_with_less_and_is_null_only_where_none_fits(tmp_path: Path) -> None:
    def recomputing(case: Case, base: Path) -> dict[str, Any]:
        return measured(100.0) if case.recompute and case.by == "ours" else {"out_of_memory": True}

    case = BY_NAME["full_1b"]
    ours, peer = (gpu.compare(one, tmp_path, "NVIDIA H200", recomputing) for one in (case, replace(case, by="trl")))
    assert (ours.tokens_s, ours.case.recompute, ours.case.optimizer) == (100.0, True, "adamw")
    assert (peer.tokens_s, peer.mfu) == (None, None)


def test_a_case_that_fails_is_not_tried_again(tmp_path: Path) -> None:
    tried = []

    def failing(case: Case, base: Path) -> None:
        tried.append(case)

    row = gpu.compare(BY_NAME["full_1b"], tmp_path, None, failing)
    assert row.tokens_s is None
    assert len(tried) == 1


def test_the_peer_is_beaten_by_the_least_of_all_configurations(tmp_path: Path) -> None:
    speeds = {"full_8b": {"ours": 150.0, "trl": 100.0}, "full_1b": {"ours": 600.0, "trl": 500.0}}

    def run(case: Case, base: Path) -> dict[str, Any]:
        return measured(speeds[case.name][case.by])

    cases = [replace(BY_NAME[name], by=by) for name in ("full_8b", "full_1b") for by in ("ours", "trl")]
    rows = [gpu.compare(case, tmp_path, "H200", run) for case in cases]
    found = {figure.key: figure.ours for figure in gpu.figures(rows, tiny=False)}
    assert found["vs_trl"] == pytest.approx(1.2)
    assert found["lora_8b_tok_s"] is None


def test_without_a_gpu_every_figure_is_null_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "gpu_name", lambda: None)
    found = gpu.measure()
    assert [(figure.key, figure.ours, figure.met) for figure in found] == [(key, None, None) for key in KEYS]
    assert "NOT MEASURED" in capsys.readouterr().out


def test_settings_are_told_by_name_and_kept_in_their_kind() -> None:
    case = changed(BY_NAME["lora_8b"], {"micro": "4", "compile": "on", "masked": "0.5"})
    assert (case.micro, case.compile, case.masked) == (4, True, 0.5)
    with pytest.raises(ValueError, match="no setting speed"):
        changed(case, {"speed": "11"})
    with pytest.raises(ValueError, match="fused"):
        changed(case, {"attention": "fast"})


@pytest.mark.parametrize(
    "levers",
    [{}, {"documents": 16, "masked": 0.5, "recompute": True, "recompute_every": 2, "attention": "own"}],
)
@pytest.mark.usefixtures("_attention_stays")
def test_ours_runs_at_tiny_size_in_this_process(tmp_path: Path, levers: dict[str, Any]) -> None:
    from benchmarks.gpu_case import make_base, run

    case = replace(tiny(BY_NAME["lora_8b"]), **levers)
    make_base(case, tmp_path / "base")
    found = run(case, tmp_path / "base", tmp_path / "run")
    assert found.tokens_s > 0
    assert found.trained == 16 * 2 * (2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 128))
    # Random weights know nothing: a uniform guess among 3,072 tokens.
    assert found.loss == pytest.approx(8.03, abs=0.1)


def test_ours_holds_weights_in_bfloat16_where_the_lever_says_so(tmp_path: Path) -> None:
    import torch

    from benchmarks import gpu_case

    case = replace(tiny(BY_NAME["full_1b"]), weights="bfloat16")
    gpu_case.make_base(case, tmp_path / "base")
    pack = gpu_case.write_packs(gpu_case.documents_of(case), tmp_path / "pack", case.window)
    trainer, _ = gpu_case._ours(case, pack, tmp_path / "base", tmp_path)
    outcome = trainer.train()
    assert outcome.training_loss == pytest.approx(8.03, abs=0.1)
    assert {weight.dtype for weight in trainer.model.parameters()} == {torch.bfloat16}


@pytest.fixture
def _attention_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a case switches in its own process is switched back in this one."""
    from ft_assets.workers.packs.isolation import attention, varlen

    for module, name in ((attention, "applies"), (varlen, "activate"), (varlen, "flash_attn")):
        monkeypatch.setattr(module, name, getattr(module, name))


@pytest.mark.usefixtures("_attention_stays")
def test_attention_of_pytorchs_own_uses_none_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from benchmarks.gpu_case import set_attention
    from ft_assets.workers.packs.isolation import varlen

    monkeypatch.setattr(varlen, "activate", lambda device: True)
    monkeypatch.setattr(varlen, "flash_attn", lambda: lambda *args, **kwargs: "flash-attn")
    monkeypatch.setattr(varlen, "attend_documents", lambda *args: "newest" if varlen.activate("cuda") else "own")
    rows = torch.zeros(4, 2, 8)
    places = (torch.tensor([0, 4]), 4, 0.0, None, None)
    found = []
    for kind in ("fused", "own"):
        set_attention(kind)
        found.append(varlen.attend(rows, rows, rows, *places))
    assert found == ["newest", "own"]


def test_ours_has_the_optimizer_and_the_recomputation_that_levers_ask_for(tmp_path: Path) -> None:
    from benchmarks import gpu_case
    from ft_assets.workers.training.muon import MuonAndAdamW

    case = replace(tiny(BY_NAME["full_1b"]), optimizer="muon", recompute=True, recompute_every=2)
    gpu_case.make_base(case, tmp_path / "base")
    pack = gpu_case.write_packs(gpu_case.documents_of(case), tmp_path / "pack", case.window)
    trainer, _ = gpu_case._ours(case, pack, tmp_path / "base", tmp_path)
    kept = trainer.args.activation_checkpointing_kwargs
    assert kept == {"use_reentrant": False, "every_n_layers": 2, "offload": False}
    offloading, _ = gpu_case._ours(replace(case, offload=True), pack, tmp_path / "base", tmp_path)
    assert offloading.args.activation_checkpointing_kwargs["offload"]
    assert trainer.train().training_loss == pytest.approx(8.03, abs=0.1)
    assert isinstance(trainer.optimizer.optimizer, MuonAndAdamW)


def test_a_timed_step_may_wait_where_it_reads_its_loss_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks import gpu_case

    modes: list[str] = []
    monkeypatch.setattr(gpu_case, "set_waits", modes.append)
    case = replace(tiny(BY_NAME["lora_8b"]), sync="error", warm=1, steps=2)
    gpu_case.make_base(case, tmp_path / "base")
    gpu_case.run(case, tmp_path / "base", tmp_path / "run")
    assert modes == ["default"] * 4 + ["error", "default", "error", "default"] * 2


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "levers"), [("lora_8b", {}), ("full_1b", {}), ("full_1b", {"optimizer": "muon"})])
def test_on_a_gpu_no_step_waits_but_where_it_reads_its_loss(tmp_path: Path, name: str, levers: dict[str, Any]) -> None:
    from benchmarks.gpu_case import make_base, run

    case = replace(tiny(BY_NAME[name]), device="cuda", documents=16, sync="error", **levers)
    make_base(case, tmp_path / "base")
    assert run(case, tmp_path / "base", tmp_path / "run").tokens_s > 0


def test_the_prediction_is_the_memory_models_and_its_worst_miss_is_a_figure(tmp_path: Path) -> None:
    assert BY_NAME["lora_8b"].predicted_bytes > 2 * 8_030_261_248
    less = replace(BY_NAME["full_8b"], recompute=True)
    predicted = [replace(less, **levers).predicted_bytes for levers in ({}, {"recompute_every": 2}, {"offload": True})]
    assert predicted[2] < predicted[0] < predicted[1]
    rows = []
    for name, share in (("full_1b", 0.97), ("lora_8b", 1.2)):
        peak = {"peak_bytes": share * BY_NAME[name].predicted_bytes}
        rows.append(gpu.compare(BY_NAME[name], tmp_path, "H200", lambda case, base, peak=peak: measured(1.0) | peak))
    found = {figure.key: figure for figure in gpu.figures(rows, tiny=False)}["peak_off"]
    assert (found.ours, found.met) == (pytest.approx(0.2), False)
    assert "| 0.97 |" in gpu.markdown(rows, "NVIDIA H200")


def test_ours_multiplies_in_8_bits_where_the_lever_says_so(tmp_path: Path) -> None:
    pytest.importorskip("torchao.float8", reason="torchao is not installed: the extra float8")
    from benchmarks import gpu_case

    case = changed(tiny(BY_NAME["full_1b"]), {"precision": "fp8"})
    gpu_case.make_base(case, tmp_path / "base")
    pack = gpu_case.write_packs(gpu_case.documents_of(case), tmp_path / "pack", case.window)
    trainer, _ = gpu_case._ours(case, pack, tmp_path / "base", tmp_path)
    outcome = trainer.train()
    assert outcome.training_loss == pytest.approx(8.03, abs=0.1)
    assert sum(type(module).__name__ == "Float8Linear" for module in trainer.model.modules()) == 14


def test_the_table_says_what_ran_with_which_settings(tmp_path: Path) -> None:
    rows = [gpu.compare(BY_NAME["full_8b"], tmp_path, "H200", lambda case, base: measured(12_500.0))]
    table = gpu.markdown(rows, "NVIDIA H200")
    assert "| full_8b | ours | 12,500 | 61.0% | 1.0 | 170.0 | 0.01 |" in table
    assert "optimizer=adamw" in table
    assert json.dumps([figure.ours for figure in gpu.figures(rows, tiny=True)]) == json.dumps([None] * 7)


def test_each_call_adds_its_row_to_the_table(tmp_path: Path) -> None:
    rows, table = tmp_path / "rows.jsonl", tmp_path / "table.md"
    for name, speed in (("full_1b", 50_000.0), ("lora_8b", 16_000.0)):
        found = gpu.compare(BY_NAME[name], tmp_path, "H200", lambda case, base, speed=speed: measured(speed))
        gpu.save(found, "NVIDIA H200", rows, table)
    assert "| full_1b | ours | 50,000 |" in table.read_text()
    assert "| lora_8b | ours | 16,000 |" in table.read_text()
    assert len(rows.read_text().splitlines()) == 2


def test_a_call_ends_in_time_and_says_what_it_did_not_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.in_processes(0)(tiny(BY_NAME["lora_8b"]), tmp_path / "base") is None
    assert "was not done in the 0 minutes of this call" in capsys.readouterr().err


def test_without_trl_the_peer_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "find_spec", lambda name: None)
    assert gpu._there("ours")
    assert not gpu._there("trl")
