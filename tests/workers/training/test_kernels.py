"""Optional kernels are reported in their state on this machine: working, missing, in need of a GPU or broken."""

import json
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest
import torch

from ft_assets.workers.training import kernels

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
