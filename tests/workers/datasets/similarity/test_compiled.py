"""Compiled kernels on disk are used again, and never after what they call has changed."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CALLED = """
from numba import njit

STEP = 3

@njit
def step(value):
    return value + STEP
"""
KERNEL = """
from numba import types
from called_by_kernel import STEP, step
from ft_assets.workers.datasets.similarity.compiled import compiled

@njit_or_compiled
def run(value):
    return step(step(value)) * STEP
"""
SIGNATURE = "types.int64(types.int64)"


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The function ``run`` of a new process, in effect, with the sources as they are then."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(called: str = CALLED, decorator: str = f"compiled({SIGNATURE})") -> Any:
        kernel = KERNEL.replace("njit_or_compiled", decorator)
        for name, text in (("called_by_kernel", called), ("kernel_that_calls", kernel)):
            path = tmp_path / f"{name}.py"
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("kernel_that_calls").run

    yield load
    for name in ("called_by_kernel", "kernel_that_calls"):
        sys.modules.pop(name, None)


def hits(kernel: Any) -> int:
    return sum(kernel.stats.cache_hits.values())


def test_what_nothing_changed_for_is_read_from_disk(load: Callable[..., Any]) -> None:
    assert (load()(1), hits(load())) == (21, 1)
    assert load()(1) == 21


@pytest.mark.parametrize(
    ("changed", "result"),
    [(CALLED.replace("value + STEP", "value - STEP"), -15), (CALLED.replace("STEP = 3", "STEP = 100"), 20100)],
    ids=["a function", "a constant"],
)
def test_a_change_of_what_a_kernel_calls_in_another_file_compiles_it_anew(
    load: Callable[..., Any], changed: str, result: int
) -> None:
    load()
    kernel = load(changed)
    assert (kernel(1), hits(kernel)) == (result, 0)
    assert load()(1) == 21


def test_numbas_own_cache_does_not_notice(load: Callable[..., Any]) -> None:
    """Why ``compiled`` is there; once this fails, numba does it by itself."""
    own = f"__import__('numba').njit({SIGNATURE}, cache=True)"
    load(decorator=own)
    assert load(CALLED.replace("STEP = 3", "STEP = 100"), own)(1) == 21
