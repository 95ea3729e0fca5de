"""Whatever a run trains and how: killed once and stopped once, it ends with the bytes of a quiet one."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ft_assets.workers.training.train import train
from tests.workers.training.conftest import Bench, make_bench
from tests.workers.training.test_train import assert_same, figures, run_killed_at, run_stopped_at
from tests.workers.training.test_warm_start import continuing, exported
from tests.workers.training.variants.kinds import make_kind
from tests.workers.training.variety import make_variety

pytestmark = pytest.mark.training

# Six steps. A save follows the third; the best of two validations is kept.
SHORT: dict[str, Any] = {"documents": 40, "validate_every_steps": 2}
BF16: dict[str, Any] = {**SHORT, "precision": "bf16"}
FULL: dict[str, Any] = {**SHORT, "variant": "full"}
ROUNDED: dict[str, Any] = {**BF16, "variant": "full", "weights": "bfloat16"}


def kind(name: str, **settings: Any) -> Callable[[Path], Bench]:
    return partial(make_kind, kind=name, keep_best=1, **{**SHORT, **settings})


def qlora(root: Path, method: str, precision: str, **lora: Any) -> Bench:
    bench = make_variety(root, method, "qlora", precision=precision)
    bench.params["lora"] |= lora
    return bench


def warm_start(root: Path) -> Bench:
    bench = make_bench(root, **SHORT)
    return continuing(bench, exported(bench, train(bench.context())))


CASES: dict[str, Callable[[Path], Bench]] = {
    "lora": partial(make_bench, **SHORT),
    "full": partial(make_bench, keep_best=1, **FULL),
    "lora in fp8": partial(make_bench, **SHORT, precision="fp8"),
    "weights in bfloat16, moments in 8 bits": partial(make_bench, **ROUNDED, optimizer="adamw_8bit"),
    "adafactor": partial(make_bench, **FULL, optimizer="adafactor"),
    "muon": partial(make_bench, **FULL, optimizer="muon"),
    "a continued adapter": warm_start,
    "pissa_rslora in bf16": kind("pissa_rslora", precision="bf16"),
    "dpo, qlora with dora in bf16": partial(qlora, method="dpo", precision="bf16", use_dora=True),
}
# What `make test` leaves out: each part of them is in one of the others.
MORE: dict[str, Callable[[Path], Bench]] = {
    "lora in bf16": partial(make_bench, **BF16),
    "weights in bfloat16": partial(make_bench, **ROUNDED),
    "dora in bf16": kind("dora", precision="bf16"),
    "full in bf16": partial(make_bench, **BF16, variant="full"),
    "moments in 8 bits": partial(make_bench, **FULL, optimizer="adamw_8bit"),
    "rslora": kind("rslora"),
    "dpo, qlora in bf16": partial(qlora, method="dpo", precision="bf16"),
    "kto, qlora": partial(qlora, method="kto", precision="fp32"),
    "full in fp8": partial(make_bench, **FULL, precision="fp8"),
    "lora_plus": kind("lora_plus"),
    "lora, moments in 8 bits": partial(make_bench, **SHORT, optimizer="adamw_8bit"),
    "lora, adafactor": partial(make_bench, **SHORT, optimizer="adafactor"),
    "rslora in bf16": kind("rslora", precision="bf16"),
    "dora": kind("dora"),
    "pissa": kind("pissa"),
    "pissa in bf16": kind("pissa", precision="bf16"),
    "pissa_rslora": kind("pissa_rslora"),
    "lora_plus in bf16": kind("lora_plus", precision="bf16"),
    "dpo, qlora": partial(qlora, method="dpo", precision="fp32"),
}


@pytest.mark.parametrize("case", [*CASES, *(pytest.param(case, marks=pytest.mark.long) for case in MORE)])
def test_killed_and_stopped_a_run_ends_with_the_bytes_and_figures_of_a_quiet_one(tmp_path: Path, case: str) -> None:
    if "fp8" in case:
        pytest.importorskip("torchao.float8", reason="torchao is not installed: the extra float8")
    make = (CASES | MORE)[case]
    quiet = train(make(tmp_path / "quiet").context())
    bench = make(tmp_path / "killed")
    bench.runtime["checkpoint_every_steps"] = 3
    run_killed_at(bench, 1, 4)
    run_stopped_at(bench, 2, 5)
    resumed = train(bench.context(3))
    # A stop costs no step.
    assert resumed.facts["resumed"] == [{"attempt": 2, "step": 5}]
    assert_same(quiet, resumed)
    assert figures(quiet) == figures(resumed)
    assert quiet.facts["steps"] == 6
    for fact in ("validation_loss", "kept"):
        assert quiet.facts.get(fact) == resumed.facts.get(fact)
