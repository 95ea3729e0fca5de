"""Softcaps and sinks on a GPU: a fused function counts only if a trial finds it right. On the CPU, with stand-ins."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.nn.attention.flex_attention import flex_attention as real

from ft_assets.workers.packs.isolation import attention, fused_scores, varlen
from ft_assets.workers.packs.isolation.attention import document_attention
from ft_assets.workers.packs.isolation.fused_scores import can_fuse, fused
from ft_assets.workers.packs.isolation.scores import Changes
from tests.workers.packs.isolation import flex_on_cpu
from tests.workers.packs.isolation.flash_on_cpu import flash_attn_varlen_func
from tests.workers.packs.isolation.test_varlen import OFFSETS, packed_mask

CPU = torch.device("cpu")
HEADS = (4, 2, 8)
CHANGES = [(True, False), (False, True), (True, True)]


@pytest.fixture(autouse=True)
def asked_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    fused.cache_clear()
    monkeypatch.setattr(fused_scores, "compiled", flex_on_cpu.uncompiled)
    monkeypatch.setattr(fused_scores, "flash_attn", lambda: None)
    yield
    fused.cache_clear()


def test_a_stand_in_has_the_signature_of_the_installed_torch() -> None:
    assert list(inspect.signature(flex_on_cpu.flex_attention).parameters) == list(inspect.signature(real).parameters)


@pytest.mark.parametrize(("softcap", "sinks"), CHANGES)
@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("heads", [(4, 2), (6, 3)])
def test_a_fused_function_gives_what_each_document_gives_alone(
    softcap: bool, sinks: bool, window: int | None, heads: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    asked = [torch.randn(1, count, 24, 8, requires_grad=True) for count in (heads[0], heads[1], heads[1])]
    sink = torch.randn(heads[0], requires_grad=True)
    more: dict[str, Any] = {"softcap": 0.7 if softcap else None, "s_aux": sink if sinks else None, "scaling": 0.9}

    def attend() -> tuple[torch.Tensor, ...]:
        q, k, v = asked
        found, _ = document_attention(torch.nn.Module(), q, k, v, packed_mask(window), cu_seq_lens_q=OFFSETS, **more)
        given = asked + [sink] * sinks
        return found, *torch.autograd.grad((found * found.detach().cos()).sum(), given)

    alone = attend()
    monkeypatch.setattr(attention, "can_fuse", lambda *_: True)
    torch.testing.assert_close(attend(), alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("softcap", "sinks"), CHANGES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_passes_the_trial_is_taken(softcap: bool, sinks: bool, dtype: torch.dtype) -> None:
    assert fused(CPU, dtype, HEADS, softcap, sinks) is fused_scores._flex_attention


def test_flash_attn_comes_first_for_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_scores, "flash_attn", lambda: flash_attn_varlen_func)
    assert fused(CPU, torch.bfloat16, HEADS, True, False) is fused_scores._flash_attn
    # It has no sinks, and computes in half precision only.
    for dtype, softcap, sinks in ((torch.bfloat16, False, True), (torch.float32, True, False)):
        assert fused(CPU, dtype, HEADS, softcap, sinks) is fused_scores._flex_attention
    fused.cache_clear()
    monkeypatch.setattr(fused_scores, "flash_attn", lambda: lambda q, k, v: q)
    assert fused(CPU, torch.bfloat16, HEADS, True, False) is fused_scores._flex_attention


def no_softcap(function: Any, **given: Any) -> Any:
    return function(**{**given, "score_mod": lambda score, *_: score})


def no_sums(function: Any, **given: Any) -> Any:
    result, beside = function(**given)
    beside.lse = beside.lse.detach() * 0
    return result, beside


def no_documents(function: Any, **given: Any) -> Any:
    given["block_mask"].mask_mod = lambda row, head, query, key: query >= key
    return function(**given)


def no_gradients(function: Any, **given: Any) -> Any:
    result, beside = function(**{**given, "key": given["key"].detach()})
    return result, beside


def no_kernel(function: Any, **given: Any) -> Any:
    raise RuntimeError("no kernel image is available")


@pytest.mark.parametrize("wrong", [no_softcap, no_sums, no_documents, no_gradients, no_kernel])
def test_what_computes_something_else_is_not_taken(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def attend(query: Any, key: Any, value: Any, **given: Any) -> Any:
        return wrong(flex_on_cpu.flex_attention, query=query, key=key, value=value, **given)

    monkeypatch.setattr(fused_scores, "compiled", lambda: (attend, flex_on_cpu.uncompiled()[1]))
    fused_scores._masks.clear()
    with pytest.warns(UserWarning, match="flex_attention is not used"):
        assert fused(CPU, torch.float32, HEADS, True, True) is None


def test_on_a_cpu_and_with_dropout_nothing_is_fused() -> None:
    q = torch.zeros(1, 4, 3, 8)
    assert not can_fuse(q, q, q, 0.0, Changes(softcap=1.0))
    assert not varlen.applies(q, q, 0.0)
