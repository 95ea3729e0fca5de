"""Documents of bases with linear attention, state-space layers or short convolutions are packed where the kernels keep
them apart, by a trial; without such kernels they run apart, and it says why."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from ft_assets.settings.catalogue.families import TOLD
from ft_assets.workers.packs.isolation import choice as choices
from ft_assets.workers.packs.isolation import told
from ft_assets.workers.packs.isolation.attention import BrokenIsolation
from ft_assets.workers.packs.isolation.choice import Choice, choose
from ft_assets.workers.packs.isolation.forward import token_losses
from ft_assets.workers.packs.isolation.told import Arithmetic
from ft_assets.workers.training.train import train
from ft_resources.errors import BadBase, BadRecipe
from tests.workers.packs.corners import corners
from tests.workers.packs.isolation.kernels_on_cpu import install
from tests.workers.packs.isolation.test_apart import documents
from tests.workers.training.families import FAMILIES, family_bench
from tests.workers.training.test_families import losses, plain, plain_losses, rates

KINDS = ["qwen3_next", "qwen3_5_text", "mamba2", "falcon_h1", "bamba", "granitemoehybrid", "nemotron_h", "lfm2"]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """No trial of one test counts in another: other kernels are installed there."""
    choices._try.cache_clear()
    yield
    choices._try.cache_clear()


def chosen(folder: Path, kind: str, **asked: Any) -> Choice:
    FAMILIES[kind].config().save_pretrained(folder)
    return choose(folder, **asked)


def made(kind: str, **loading: Any) -> Any:
    """A model in which tokens matter to those after them."""
    model = FAMILIES[kind].model(**loading)
    for weights in model.parameters():
        weights.data *= 4 if weights.ndim > 1 else 1
    return model


def with_kernels(monkeypatch: pytest.MonkeyPatch, kind: str, forgetful: str = "") -> None:
    install(monkeypatch, kind.removesuffix("_text"), forgetful)


# With kernels for a delta rule, a scan, both scans' joined form, and a convolution alone.
@pytest.mark.parametrize("kind", corners(KINDS, ["qwen3_next", "mamba2", "falcon_h1", "lfm2"]))
@torch.no_grad()
def test_documents_are_packed_where_kernels_keep_them_apart_and_lose_what_each_loses_alone(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, batch = made(kind).eval(), documents()
    expected = []
    for start, end in zip(batch.boundaries[:-1].tolist(), batch.boundaries[1:].tolist(), strict=True):
        mine = (batch.sources >= start) & (batch.sources < end)
        logits = plain(input_ids=batch.input_ids[:, start:end]).logits[0, batch.sources[mine] - start]
        expected.append(cross_entropy(logits.float(), batch.targets[mine], reduction="none"))
    with_kernels(monkeypatch, kind)
    choice = chosen(tmp_path, kind)
    assert (choice.mode, choice.told) == ("packed", True)
    model = made(kind, **choice.loading)
    choice.prepare(model)
    for mode in (False, True):
        found = token_losses(model.train(mode), batch)
        torch.testing.assert_close(found, torch.cat(expected), rtol=1e-5, atol=1e-5)
    with told._untold(model):
        assert (token_losses(model, batch) - torch.cat(expected)).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("kind", "forgetful", "half"),
    [
        ("qwen3_next", "chunk_gated_delta_rule", None),
        ("qwen3_5_text", "causal_conv1d_fn", torch.bfloat16),
        ("qwen3_next", "backward chunk_gated_delta_rule", torch.bfloat16),
        ("falcon_h1", "mamba_chunk_scan_combined", None),
        # This kernel computes in training only.
        ("mamba2", "mamba_split_conv1d_scan_combined", None),
        ("lfm2", "backward causal_conv1d_fn", None),
    ],
)
def test_kernels_that_ignore_boundaries_fail_the_trial_and_documents_run_apart(
    kind: str, forgetful: str, half: torch.dtype | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_kernels(monkeypatch, kind, forgetful)
    choice = chosen(tmp_path, kind, arithmetic=Arithmetic(half=half))
    assert (choice.mode, choice.told, choice.attention) == ("apart", False, None)
    assert "whose kernels do not keep documents apart, by trial" in choice.why
    with pytest.raises(BadBase, match="do not keep documents apart"):
        choose(tmp_path, "packed", arithmetic=Arithmetic(half=half))


@pytest.mark.parametrize(
    ("kind", "missing"), [("qwen3_next", "causal_conv1d"), ("mamba2", "mamba_ssm"), ("granitemoehybrid", "mamba_ssm")]
)
def test_without_the_kernels_documents_run_apart_and_it_says_which_are_missing(
    kind: str, missing: str, tmp_path: Path
) -> None:
    choice = chosen(tmp_path, kind)
    assert choice.mode == "apart"
    assert f"can't keep packed sequences apart without `{missing}`" in choice.why


@pytest.mark.parametrize("kind", sorted(TOLD & set(FAMILIES)))
def test_the_catalogue_names_the_families_whose_layers_are_told(kind: str, tmp_path: Path) -> None:
    assert "can't keep packed sequences apart without" in chosen(tmp_path, kind).why


def test_the_trial_is_made_in_the_arithmetic_of_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_kernels(monkeypatch, "lfm2")
    for arithmetic in (
        Arithmetic(),
        Arithmetic(half=torch.bfloat16),
        Arithmetic(weights=torch.bfloat16, half=torch.bfloat16),
    ):
        assert chosen(tmp_path, "lfm2", arithmetic=arithmetic).mode == "packed"
    # A device that is not there, as a kernel that does not run on one.
    choice = chosen(tmp_path, "lfm2", arithmetic=Arithmetic(device="cuda"))
    assert choice.mode == "apart"
    assert "packed rows fail in a trial" in choice.why


def test_a_trial_that_could_not_see_a_leak_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_kernels(monkeypatch, "lfm2")
    monkeypatch.setattr(told, "_hooks", lambda model: [])
    monkeypatch.setattr(choices, "is_told", lambda model: True)
    monkeypatch.setattr("ft_assets.workers.packs.isolation.guard.is_told", lambda model: True)
    choice = chosen(tmp_path, "lfm2")
    assert choice.mode == "apart"
    assert "a leak through them would not be seen" in choice.why


def test_a_rank_whose_device_fails_the_trial_makes_all_ranks_run_documents_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_kernels(monkeypatch, "lfm2")
    monkeypatch.setattr(choices, "_on_every_rank", lambda fine: False)
    assert chosen(tmp_path, "lfm2").mode == "apart"


def test_layers_that_mix_tokens_compute_no_slices_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ft_assets.workers.packs.isolation.context import ContextGroup
    from ft_assets.workers.training.train import _require_packed

    with_kernels(monkeypatch, "lfm2")
    choice = chosen(tmp_path, "lfm2")
    model = FAMILIES["lfm2"].model(**choice.loading).eval()
    choice.prepare(model)
    part = documents().slice_for(ContextGroup(size=2, place=0, handle=None))
    with pytest.raises(BrokenIsolation, match="slice"):
        token_losses(model, part)
    with pytest.raises(BadRecipe, match="mix tokens"):
        _require_packed(choice)


@pytest.mark.training
def test_a_packed_training_has_the_losses_of_a_plain_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = "mamba2"
    with_kernels(monkeypatch, kind)
    bench = family_bench(tmp_path, FAMILIES[kind], variant="full")
    result = train(bench.context())
    assert result.facts["isolation"]["mode"] == "packed"
    assert result.facts["isolation"]["passed"]
    model = plain(bench.inputs["base"].folder(tmp_path / "plain"), kind)
    assert losses(result) == pytest.approx(plain_losses(bench, model, rates(result)), rel=1e-5)
