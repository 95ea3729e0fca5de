"""Which optional kernels this machine has: each is imported, and tried on a small example if it can run here.

``ft kernels`` tests a GPU image with it. A training uses the kernels that it finds; without them it is only slower.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from ft_resources.lazy import load

State = Literal["works", "imports", "needs a GPU", "not installed", "broken"]
_UNTRIED = "not tried: no GPU"
# Messages of imports that need a GPU's driver: from the dynamic linker, Triton, and PyTorch.
_NO_DRIVER = ("libcuda.so", "active drivers", "no NVIDIA driver")


@dataclass(frozen=True, kw_only=True)
class Found:
    """An optional kernel on this machine. ``detail`` says what is wrong with a broken one.

    ``imports``: it is installed, but not tried without a GPU. ``needs a GPU``: without one it cannot even be imported.
    """

    name: str
    serves: str
    version: str = ""
    state: State
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class _Kernel:
    """``attempt(device)`` raises if the kernel does not work; ``gpu``: whether it needs one."""

    name: str
    serves: str
    package: str
    module: str
    attempt: Callable[[Any], object]
    gpu: bool = True


def find_kernels() -> Iterator[Found]:
    """Every optional kernel, as soon as it was tried: the first use of some takes a minute."""
    import torch

    gpu = torch.cuda.is_available()
    device = torch.device("cuda" if gpu else "cpu")
    for kernel in _KERNELS:
        # Libraries print while they are imported.
        with redirect_stdout(sys.stderr):
            state, detail = _try(kernel, device)
        yield Found(
            name=kernel.name, serves=kernel.serves, version=_version(kernel.package), state=state, detail=detail
        )


def _try(kernel: _Kernel, device: Any) -> tuple[State, str]:
    try:
        import_module(kernel.module)
        if kernel.gpu and device.type != "cuda":
            return "imports", _UNTRIED
        kernel.attempt(device)
    except ModuleNotFoundError as error:
        # An installed module may lack another.
        missing = (error.name or "").partition(".")[0] == kernel.module.partition(".")[0]
        return ("not installed", "") if missing else ("broken", str(error))
    except Exception as error:  # On unknown hardware kernels raise anything.
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        driver = kernel.gpu and device.type != "cuda" and any(each in reason for each in _NO_DRIVER)
        return ("needs a GPU" if driver else "broken"), reason
    return "works", ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _trial(reference: str) -> Callable[[Any], object]:
    """The function ``reference``, imported when it is called."""

    def attempt(device: Any) -> None:
        load(reference)(device)

    return attempt


_own_attention = _trial("ft_assets.workers.packs.isolation.newest_flash:require_right")


def _newer_attention(name: str) -> Callable[[Any], None]:
    def attempt(device: Any) -> None:
        from torch.nn import attention

        attention.activate_flash_attention_impl(name)
        try:
            _own_attention(device)
        finally:
            attention.restore_flash_attention_impl()

    return attempt


def _flash_attn(device: Any) -> None:
    from flash_attn import flash_attn_varlen_func

    from ft_assets.workers.packs.isolation.newest_flash import require_right

    def attend(q: Any, k: Any, v: Any, offsets: Any, longest: int) -> Any:
        return flash_attn_varlen_func(q, k, v, offsets, offsets, longest, longest, causal=True)

    require_right(device, attend)


def _compiled(device: Any) -> None:
    import torch

    compiled = torch.compile(lambda values: (values.sin() + 1).sum())
    values = torch.arange(8.0, device=device)
    torch.testing.assert_close(compiled(values), (values.sin() + 1).sum())


def _four_bit(device: Any) -> None:
    import bitsandbytes
    import torch

    weight = torch.linspace(-1, 1, 64 * 64, device=device).reshape(64, 64)
    packed, state = bitsandbytes.functional.quantize_4bit(weight, quant_type="nf4")
    torch.testing.assert_close(bitsandbytes.functional.dequantize_4bit(packed, state), weight, atol=0.2, rtol=0)


def _eight_bit(device: Any) -> None:
    import bitsandbytes
    import torch

    weight = torch.nn.Parameter(torch.ones(4096, device=device))
    weight.grad = torch.ones_like(weight)
    bitsandbytes.optim.AdamW8bit([weight], lr=0.1, weight_decay=0.0).step()
    torch.testing.assert_close(weight.detach(), torch.full_like(weight, 0.9), atol=0.01, rtol=0)


def _eight_bit_products(device: Any) -> None:
    import torch

    from ft_assets.workers.training.float8 import multiplies_float8, with_scales_by_row

    plain = torch.nn.Linear(64, 32, bias=False, device=device, dtype=torch.bfloat16)
    fast = with_scales_by_row(plain, emulated=not multiplies_float8(device))
    # The number of rows is not a multiple of 16.
    rows = torch.linspace(-1, 1, 20 * 64, device=device, dtype=torch.bfloat16).reshape(20, 64)
    for used in (lambda layer: layer(rows), lambda layer: torch.autograd.grad(layer(rows).sum(), layer.weight)[0]):
        expected = used(plain)
        torch.testing.assert_close(used(fast), expected, atol=0.1 * expected.abs().max().item(), rtol=0)


_TRIALS = "ft_assets.workers.training.kernel_trials"
_PACKED, _LAYERS = "attention over packed documents", "state-space and linear attention layers"
_KERNELS = (
    _Kernel(name="FlashAttention 4", serves=_PACKED, package="flash-attn-4", module="flash_attn.cute",
            attempt=_newer_attention("FA4")),
    _Kernel(name="FlashAttention 3", serves=_PACKED, package="flash-attn-3", module="flash_attn_interface",
            attempt=_newer_attention("FA3")),
    _Kernel(name="flash-attn 2", serves=f"{_PACKED}, with dropout too", package="flash-attn", module="flash_attn",
            attempt=_flash_attn),
    _Kernel(name="varlen_attn", serves=_PACKED, package="torch", module="torch.nn.attention.varlen",
            attempt=_own_attention),
    _Kernel(name="torch.compile", serves="compiled kernels; needs a C compiler", package="torch", module="torch",
            gpu=False, attempt=_compiled),
    _Kernel(name="bitsandbytes, 4 bits", serves="qlora", package="bitsandbytes", module="bitsandbytes", gpu=False,
            attempt=_four_bit),
    _Kernel(name="bitsandbytes, 8 bits", serves="training.optimizer: adamw_8bit", package="bitsandbytes",
            module="bitsandbytes", gpu=False, attempt=_eight_bit),
    _Kernel(name="torchao, 8-bit floats", serves="training.precision: fp8, from compute capability 8.9 on",
            package="torchao", module="torchao.float8", attempt=_eight_bit_products),
    _Kernel(name="DeepSpeed", serves="hardware.sharding: zero1, zero2, zero3", package="deepspeed",
            module="deepspeed", gpu=False, attempt=_trial("ft_assets.workers.training.distributed.trial:try_engine")),
    _Kernel(name="causal-conv1d", serves=_LAYERS, package="causal-conv1d", module="causal_conv1d",
            attempt=_trial(f"{_TRIALS}:causal_convolution")),
    _Kernel(name="mamba-ssm", serves=_LAYERS, package="mamba-ssm", module="mamba_ssm",
            attempt=_trial(f"{_TRIALS}:state_space")),
    _Kernel(name="flash-linear-attention", serves=_LAYERS, package="flash-linear-attention", module="fla",
            attempt=_trial(f"{_TRIALS}:gated_delta_rule")),
)  # fmt: skip
