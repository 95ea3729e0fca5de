"""A newer FlashAttention is used where it is installed and computes what plain attention does; else PyTorch's own."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn import attention

from ft_assets.workers.packs.isolation import torch_varlen
from ft_assets.workers.packs.isolation.newest_flash import activate
from tests.workers.packs.isolation.flash_on_cpu import dense

CPU = torch.device("cpu")


def plain(q: Any, k: Any, v: Any, offsets: Any, *_: Any, **__: Any) -> torch.Tensor:
    return dense(q, k, v, offsets)


def of_one_document(q: Any, k: Any, v: Any, offsets: Any, *_: Any, **__: Any) -> torch.Tensor:
    return dense(q, k, v, offsets[[0, 2]])


def of_unknown_gpus(*_: Any, **__: Any) -> torch.Tensor:
    raise RuntimeError("no kernel image is available")


class Backward(torch.autograd.Function):
    """Right output, wrong gradients."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, offsets: Any) -> torch.Tensor:
        ctx.save_for_backward(q, k, v)
        return dense(q, k, v, offsets)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        return *(torch.zeros_like(each) for each in ctx.saved_tensors), None


def with_wrong_gradients(q: Any, k: Any, v: Any, offsets: Any, *_: Any, **__: Any) -> Any:
    return Backward.apply(q, k, v, offsets)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """``installed(FA4=function, …)``: these and no others can be activated."""
    active: list[str] = []

    def install(**functions: Any) -> None:
        def switch_on(name: str) -> None:
            if name not in functions:
                raise ImportError(name)
            active[:] = [name]

        def compute(*args: Any, **named: Any) -> Any:
            return functions[active[0]](*args, **named)

        monkeypatch.setattr(attention, "activate_flash_attention_impl", switch_on)
        monkeypatch.setattr(attention, "current_flash_attention_impl", lambda: active[0] if active else None)
        monkeypatch.setattr(attention, "restore_flash_attention_impl", active.clear)
        monkeypatch.setattr(torch_varlen, "varlen_attn", compute)
        activate.cache_clear()

    yield install
    activate.cache_clear()


@torch.no_grad()
def test_the_newest_that_is_installed_is_activated(installed: Any) -> None:
    installed(FA3=plain, FA4=plain)
    assert activate(CPU) == attention.current_flash_attention_impl() == "FA4"
    installed(FA3=plain)
    assert activate(CPU) == attention.current_flash_attention_impl() == "FA3"


def test_without_any_pytorch_s_own_is_left_as_it_is(installed: Any) -> None:
    installed()
    assert activate(CPU) == ""
    activate.cache_clear()


@pytest.mark.parametrize(
    ("function", "reason"),
    [(of_one_document, "not those"), (with_wrong_gradients, "not those"), (of_unknown_gpus, "no kernel image")],
)
def test_one_that_computes_something_else_is_switched_off_again_with_a_warning(
    function: Any, reason: str, installed: Any
) -> None:
    installed(FA4=function, FA3=plain)
    with pytest.warns(UserWarning, match=f"FA4 is installed and not used: .*{reason}"):
        assert activate(CPU) == "FA3"
    installed(FA4=function)
    with pytest.warns(UserWarning, match=reason):
        assert activate(CPU) == ""
    assert attention.current_flash_attention_impl() is None


def test_pytorch_knows_the_names_that_are_asked_for() -> None:
    assert {"FA3", "FA4"} <= set(attention.list_flash_attention_impls())
