"""The fused path of a GPU, on the CPU: stand-ins with the real functions' signatures, which compute densely."""

import inspect
import sys
from types import ModuleType
from typing import Any

import pytest
import torch

from ft_assets.workers.packs.isolation import attention, torch_varlen, varlen
from ft_assets.workers.packs.isolation.attention import (
    BrokenIsolation,
    MissingBoundaries,
    document_attention,
    document_mask,
)
from ft_assets.workers.packs.isolation.varlen import refusal
from tests.workers.packs.isolation.flash_on_cpu import dense, flash_attn_varlen_func

LENGTHS = [5, 1, 12, 6]
OFFSETS = torch.tensor([0, 5, 6, 18, 24], dtype=torch.int32)


def varlen_attn(
    query: Any,
    key: Any,
    value: Any,
    cu_seq_q: Any,
    cu_seq_k: Any,
    max_q: int,
    max_k: int,
    *,
    return_aux: Any = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Any = None,
    block_table: Any = None,
    num_splits: int | None = None,
) -> torch.Tensor:
    assert window_size[1] == 0
    assert enable_gqa or query.shape[1] == key.shape[1]
    assert max_q == max_k == max(LENGTHS)
    return dense(query, key, value, cu_seq_q, scale, window_size[0])


def varlen_attn_of_2_11(
    query: Any,
    key: Any,
    value: Any,
    cu_seq_q: Any,
    cu_seq_k: Any,
    max_q: int,
    max_k: int,
    *,
    return_aux: Any = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
) -> torch.Tensor:
    return varlen_attn(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, scale=scale, window_size=window_size)


def packed_mask(window: int | None) -> torch.Tensor | None:
    return document_mask(q_length=24, allow_is_causal_skip=False, local_size=window)


def test_a_stand_in_has_the_signature_of_the_installed_torch() -> None:
    from torch.nn.attention.varlen import varlen_attn as real

    known = [list(inspect.signature(each).parameters) for each in (varlen_attn_of_2_11, varlen_attn)]
    assert list(inspect.signature(real).parameters) in known


@pytest.mark.parametrize(
    ("newest", "flash", "own"),
    [
        ("FA4", None, varlen_attn),
        ("", flash_attn_varlen_func, varlen_attn),
        ("", None, varlen_attn),
        ("", None, varlen_attn_of_2_11),
    ],
    ids=["newest", "flash-attn", "torch", "torch 2.11"],
)
@pytest.mark.parametrize("key_heads", [4, 2, 1])
@pytest.mark.parametrize("window", [None, 3, 6, 12])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_the_fused_functions_give_what_each_document_gives_alone(
    newest: str,
    flash: Any,
    own: Any,
    key_heads: int,
    window: int | None,
    scale: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, heads, 24, 8) for heads in (4, key_heads, key_heads))
    arguments = {"scaling": scale, "cu_seq_lens_q": OFFSETS}
    module = torch.nn.Module()
    alone, _ = document_attention(module, q, k, v, packed_mask(window), **arguments)
    monkeypatch.setattr(attention, "applies", lambda *_: True)
    monkeypatch.setattr(torch_varlen, "varlen_attn", own)
    monkeypatch.setattr(varlen, "flash_attn", lambda: flash)
    monkeypatch.setattr(varlen, "activate", lambda device: newest)
    fused, _ = document_attention(module, q, k, v, packed_mask(window), **arguments)
    assert fused.shape == alone.shape == (1, 24, 4, 8)
    torch.testing.assert_close(fused, alone, atol=1e-5, rtol=1e-5)
    prepared, _ = document_attention(
        module, q, k, v, packed_mask(window), cu_seq_lens_k=OFFSETS, max_length_q=12, **arguments
    )
    assert torch.equal(prepared, fused)


def test_a_window_counts_the_token_itself() -> None:
    q, k = torch.zeros(1, 1, 24, 8), torch.zeros(1, 1, 24, 8)
    v = torch.eye(24)[None, None]
    seen, _ = document_attention(torch.nn.Module(), q, k, v, packed_mask(3), cu_seq_lens_q=OFFSETS)
    assert seen[0, 17, 0].nonzero().flatten().tolist() == [15, 16, 17]
    assert seen[0, 7, 0].nonzero().flatten().tolist() == [6, 7]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"dtype": torch.float16}, None),
        ({"dtype": torch.float32}, "half precision"),
        ({"head_sizes": (60, 60)}, "multiple of 8"),
        ({"head_sizes": (512, 512)}, "multiple of 8"),
        ({"head_sizes": (192, 128)}, "values 128"),
        ({"dropout": 0.1}, "dropout"),
        ({"capability": (7, 5)}, "compute capability"),
    ],
)
def test_what_the_fused_function_cannot_do_is_known(change: dict[str, Any], reason: str | None) -> None:
    asked = {"dtype": torch.bfloat16, "head_sizes": (128, 128), "dropout": 0.0, "capability": (8, 0), **change}
    refused = refusal(**asked)
    assert (refused is None) if reason is None else (refused is not None and reason in refused)


def test_flash_attn_is_taken_where_it_is_installed_and_has_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    flash = ModuleType("flash_attn")
    flash.flash_attn_varlen_func = flash_attn_varlen_func  # type: ignore[attr-defined]
    asked = {"dtype": torch.bfloat16, "head_sizes": (128, 128), "dropout": 0.1, "capability": (8, 0)}
    for module, function, refused in ((flash, flash_attn_varlen_func, False), (None, None, True)):
        monkeypatch.setitem(sys.modules, "flash_attn", module)
        varlen.flash_attn.cache_clear()
        assert varlen.flash_attn() is function
        assert bool(refusal(**asked)) is refused
    varlen.flash_attn.cache_clear()


def test_on_the_cpu_there_is_no_fused_function() -> None:
    assert not varlen.applies(torch.zeros(1, 1, 4, 8), torch.zeros(1, 1, 4, 8), 0.0)


def test_keys_of_a_cache_and_masks_without_documents_are_refused() -> None:
    q = torch.randn(1, 2, 24, 8)
    longer = torch.randn(1, 2, 30, 8)
    with pytest.raises(BrokenIsolation, match="cache"):
        document_attention(torch.nn.Module(), q, longer, longer, packed_mask(None), cu_seq_lens_q=OFFSETS)
    full = torch.ones(1, 1, 24, 24, dtype=torch.bool)
    with pytest.raises(BrokenIsolation, match="mask"):
        document_attention(torch.nn.Module(), q, q, q, full, cu_seq_lens_q=OFFSETS)
    with pytest.raises(MissingBoundaries):
        document_attention(torch.nn.Module(), q, q, q, packed_mask(None))
