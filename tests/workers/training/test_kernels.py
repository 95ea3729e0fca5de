"""Kernels that trainings use, and the trials that they pass first."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from transformers.models.mamba2 import modeling_mamba2
from transformers.models.qwen3_next import modeling_qwen3_next
from typer.testing import CliRunner

from ft_assets.cli.main import app
from ft_assets.workers.training import kernel_trials, kernels
from ft_assets.workers.training.distributed import trial
from tests.workers.training.forks import Forks, run_ranks

CPU = torch.device("cpu")


def state_of(kernel: Any, device: torch.device = CPU) -> tuple[str, str]:
    found = kernels._try(kernel, device)
    return found[0], found[1]


def of(module: str, attempt: Any, *, gpu: bool = False) -> Any:
    return kernels._Kernel(name="k", serves="s", package="p", module=module, gpu=gpu, attempt=attempt)


@pytest.mark.long
@pytest.mark.subprocess
def test_ft_kernels_tells_the_state_of_each_on_this_machine() -> None:
    # Some libraries change the process that imports them.
    command = [sys.executable, "-c", "from ft_assets.cli.main import app; app()", "kernels", "--json"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    found = {each["name"]: each for each in json.loads(run.stdout)}
    assert len(found) > 8
    assert {each["state"] for each in found.values()} <= {"works", "imports", "not installed"}, found
    assert found["bitsandbytes, 4 bits"]["state"] == found["bitsandbytes, 8 bits"]["state"] == "works"
    assert found["DeepSpeed"]["state"] == "works"
    assert found["bitsandbytes, 4 bits"]["version"]
    if not torch.cuda.is_available():
        assert (found["varlen_attn"]["state"], found["varlen_attn"]["detail"]) == ("imports", "not tried: no GPU")


def test_what_is_not_installed_or_needs_a_gpu_is_not_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    assert state_of(of("no_such_package.part", print)) == ("not installed", "")
    assert state_of(of("json", print, gpu=True)) == ("imports", "not tried: no GPU")
    (tmp_path / "for_drivers.py").write_text("raise ImportError('libcuda.so.1: cannot open shared object file')\n")
    monkeypatch.syspath_prepend(tmp_path)
    reason = "ImportError: libcuda.so.1: cannot open shared object file"
    assert state_of(of("for_drivers", print, gpu=True)) == ("needs a GPU", reason)
    assert state_of(of("for_drivers", print)) == ("broken", reason)


def test_a_kernel_for_a_gpu_that_was_built_for_another_pytorch_is_broken_without_a_gpu_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "of_another.py").write_text("raise ImportError('of_another.so: undefined symbol: _ZN3c104cuda')\n")
    monkeypatch.syspath_prepend(tmp_path)
    state, why = state_of(of("of_another", print, gpu=True))
    assert state == "broken"
    assert "undefined symbol" in why


def test_a_broken_kernel_says_why_in_a_line() -> None:
    def fail(device: torch.device) -> None:
        raise RuntimeError("no kernel image\nis available")

    assert state_of(of("json", fail)) == ("broken", "RuntimeError: no kernel image")


def test_a_package_that_misses_another_is_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "half_there.py").write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert state_of(of("half_there", print)) == ("broken", "No module named 'no_such_dependency'")


def test_flash_attn_that_computes_something_else_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = ModuleType("flash_attn")
    wrong.flash_attn_varlen_func = lambda q, *_, **__: q * 2  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flash_attn", wrong)
    state, why = state_of(of("flash_attn", kernels._flash_attn))
    assert state == "broken"
    assert "allow_unused" in why or "not those of plain attention" in why


# What Transformers computes without these kernels. Taken here: later imports would find the fakes below.
_CONVOLUTION = modeling_qwen3_next.causal_conv1d_fn.__wrapped__
_RULE = modeling_qwen3_next.torch_chunk_gated_delta_rule.__wrapped__
_SCAN = modeling_mamba2.mamba2_chunk_scan.__wrapped__
Change = Callable[[torch.Tensor], torch.Tensor]


def convolution(change: Change) -> Callable[..., Any]:
    return lambda x, weight, bias, activation: change(_CONVOLUTION(x, weight, bias, activation))


def scan(change: Change) -> Callable[..., Any]:
    def kernel(*args: Any, chunk_size: int, **kwargs: Any) -> torch.Tensor:
        return change(_SCAN(*args, chunk_size, **kwargs))

    return kernel


def rule(change: Change) -> Callable[..., Any]:
    return lambda *args, **kwargs: (change(_RULE(*args, **kwargs)[0]), None)


# Of each trial: the module that its kernel is in, the kernel's name, and how a fake is made.
TRIALS: dict[str, tuple[str, str, Callable[[Change], Callable[..., Any]]]] = {
    "causal-conv1d": ("causal_conv1d", "causal_conv1d_fn", convolution),
    "mamba-ssm": ("mamba_ssm.ops.triton.ssd_combined", "mamba_chunk_scan_combined", scan),
    "flash-linear-attention": ("fla.ops.gated_delta_rule", "chunk_gated_delta_rule", rule),
}
KERNELS = {kernel.name: kernel for kernel in kernels._KERNELS}


class WrongBackwards(torch.autograd.Function):
    """The identity, with half its gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient / 2


def install(monkeypatch: pytest.MonkeyPatch, name: str, kernel: Callable[..., Any]) -> None:
    module, function, _ = TRIALS[name]
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:depth]), ModuleType(".".join(parts[:depth])))
    monkeypatch.setattr(sys.modules[module], function, kernel, raising=False)


def tried(name: str) -> tuple[str, str]:
    """As on a machine whose GPU computes what its CPU does."""
    kernel = KERNELS[name]
    found = kernels._try(
        kernels._Kernel(
            name=name,
            serves=kernel.serves,
            package=kernel.package,
            module=kernel.module,
            attempt=kernel.attempt,
            gpu=False,
        ),
        CPU,
    )
    return found[0], found[1]


@pytest.mark.parametrize("name", TRIALS)
def test_a_kernel_that_computes_what_plain_pytorch_does_works(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, name, TRIALS[name][2](lambda found: found))
    assert tried(name) == ("works", "")


@pytest.mark.parametrize(
    "change",
    [lambda found: found * 1.2, lambda found: torch.full_like(found, torch.nan) + 0 * found, WrongBackwards.apply],
    ids=["numbers", "nan", "gradients"],
)
@pytest.mark.parametrize("name", TRIALS)
def test_a_kernel_with_wrong_numbers_or_wrong_gradients_is_broken(
    name: str, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, name, TRIALS[name][2](change))
    assert tried(name) == ("broken", "ValueError: its results are not those of a plain computation")


@pytest.mark.parametrize("name", TRIALS)
def test_a_kernel_that_raises_is_told_with_its_cause(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("CUDA error: no kernel image is available for execution on the device")

    install(monkeypatch, name, fail)
    state, why = tried(name)
    assert state == "broken"
    assert why.startswith("RuntimeError: CUDA error: no kernel image")


@pytest.mark.parametrize("name", TRIALS)
def test_without_a_gpu_a_kernel_for_one_is_imported_and_says_that_it_was_not_tried(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, name, TRIALS[name][2](lambda found: found * 2))
    assert kernels._try(KERNELS[name], CPU) == ("imports", "not tried: no GPU")


@pytest.mark.parametrize(("change", "status"), [(lambda found: found, 0), (lambda found: found * 2, 1)])
def test_ft_kernels_ends_with_status_1_if_numbers_are_wrong(
    change: Change, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, "mamba-ssm", scan(change))
    tried_here = kernels._Kernel(
        name="mamba-ssm", serves="layers", package="p", module="mamba_ssm", attempt=kernel_trials.state_space, gpu=False
    )
    monkeypatch.setattr(kernels, "_KERNELS", (tried_here,))
    run = CliRunner().invoke(app, ["kernels", "--json"])
    assert run.exit_code == status
    assert json.loads(run.stdout)[0]["state"] == ("broken" if status else "works")


@pytest.mark.subprocess
def test_deepspeed_s_engine_takes_the_step_of_plain_adamw_in_a_process_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On a busy machine its imports alone take minutes.
    monkeypatch.setattr(trial, "_LIMIT_S", 600.0)
    trial.try_engine(CPU)
    assert not torch.distributed.is_initialized()


@pytest.mark.long  # It imports as much as one that works.
@pytest.mark.subprocess
def test_what_the_process_of_deepspeed_s_engine_ends_with_is_told() -> None:
    with pytest.raises(RuntimeError, match="abacus"):
        trial.try_engine("abacus")  # type: ignore[arg-type]  # a device that is none


@pytest.mark.subprocess
def test_a_step_that_is_not_adamw_s_fails_the_trial_of_deepspeed(forks: Forks, tmp_path: Path) -> None:
    assert run_ranks(str(forks.place), 1, 1, str(tmp_path), "tests.workers.training.planted:engine_without_a_step") == 0
    assert (tmp_path / "said").read_text() == "its results are not those of a plain computation"
