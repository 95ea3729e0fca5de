"""Scoring suites beside the stock ``lm_eval`` command (batch 16): whole commands in processes of their own, one behind
the other on the same machine, each with its start, its model and its tasks to load."""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.eval_cost import DEFAULT_SUITES, suite_cost, total_seconds
from benchmarks.eval_tasks import is_real, make_all, stock_tasks
from benchmarks.table import Figure
from ft_assets.settings.gpus import CATALOGUE
from ft_assets.workers.model_size.model_size import read_architecture

# Context to the items of each of two tasks: few, as stock takes seconds for one item at 4,096 tokens.
SIZES = {4096: 16, 512: 120}
GOALS = {4096: 8.0, 512: 2.5}
_BATCH = "16"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """One command: seconds on the clock and of all processors, and what it found by task."""

    wall_s: float
    cpu_s: float
    tasks: dict[str, dict[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """Both commands at one context."""

    ours: Ran
    stock: Ran

    @property
    def identical(self) -> bool:
        """Whether every item is right or wrong for both, every choice greedy or not, and every task's score equal."""
        return all(
            ours["acc"] == stock["acc"] and ours["value"] == stock["value"] and _greedy(ours) == _greedy(stock)
            for ours, stock in self._pairs()
        )

    @property
    def difference(self) -> float:
        """The largest difference of a choice's log-likelihood, in nats."""
        return max(
            abs(one[0] - other[0])
            for ours, stock in self._pairs()
            for one, other in zip(ours["answers"], stock["answers"], strict=True)
        )

    def _pairs(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return [(self.ours.tasks[name], stock) for name, stock in self.stock.tasks.items()]


def figures() -> list[Figure]:
    """Times as ratios, and whether the scores are the same."""
    found = {context: _compare(context, count) for context, count in SIZES.items()}
    data = "ARC-Challenge, HellaSwag" if is_real() else "made-up words; set FT_REAL_DATA for real items"
    made = []
    for context, each in found.items():
        suffix = "" if context == 4096 else f"_{context}"
        for kind, key, ours, stock in (
            ("time", "eval_vs_lm_eval", each.ours.wall_s, each.stock.wall_s),
            ("CPU time", "eval_cpu_vs_lm_eval", each.ours.cpu_s, each.stock.cpu_s),
        ):
            made.append(
                Figure(
                    key=f"{key}{suffix}",
                    what=f"{kind} of stock lm_eval ({stock:,.1f} s) / ours ({ours:,.1f} s), context {context} ({data})",
                    ours=stock / ours,
                    peer=1.0,
                    peer_is=f"lm_eval, batch {_BATCH}",
                    goal=f">= {GOALS[context]:g}",
                    met=stock / ours >= GOALS[context],
                )
            )
    identical = all(each.identical for each in found.values())
    difference = max(each.difference for each in found.values())
    made.append(
        Figure(
            key="eval_scores_identical",
            what=f"scores of tasks and items equal stock's; log-likelihoods differ by up to {difference:.1e} nats",
            ours=float(identical),
            peer=None,
            peer_is="",
            goal="1",
            met=identical,
        )
    )
    return [*made, *_cost()]


def _cost() -> list[Figure]:
    """The default suite on one H200: by the cost model, and measured where there is one, which there was not yet."""
    config = {"num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4}
    config |= {"intermediate_size": 18944, "vocab_size": 152064}
    model = read_architecture({**config, "model_type": "qwen2", "tie_word_embeddings": False})
    if model is None:
        raise RuntimeError("the shape of Qwen2.5-7B is not known any more")
    costs = [suite_cost(load, model, CATALOGUE["H200"]) for load in DEFAULT_SUITES]
    for cost in costs:
        seconds = f"{cost.seconds.expected:,.0f} s ({cost.seconds.lower:,.0f} to {cost.seconds.upper:,.0f})"
        tokens = f"{cost.read / 1e6:.2f} M tokens read ({cost.read_unshared / 1e6:.2f} M unshared)"
        print(f"{cost.name}: {tokens}, {cost.flops:.1e} FLOPs, {cost.steps:,} steps of writing, {seconds}")
    shared, unshared = (total_seconds(costs, shared=each) for each in (True, False))
    bounds = f"{shared.lower / 60:.0f} to {shared.upper / 60:.0f}"
    return [
        Figure(
            key="eval_default_suite_predicted_min",
            what=f"default suite, Qwen2.5-7B on one H200, minutes by the cost model ({bounds})",
            ours=shared.expected / 60,
            peer=unshared.expected / 60,
            peer_is="nothing shared",
            goal="<= 15",
            met=shared.expected <= 15 * 60,
        ),
        Figure(
            key="eval_default_suite_min",
            what="the same, measured",
            ours=None,
            peer=None,
            peer_is="",
            goal="<= 15",
            met=None,
        ),
    ]


def _compare(context: int, count: int) -> Compared:
    with tempfile.TemporaryDirectory(prefix="ft-bench-eval-") as scratch:
        folder = Path(scratch)
        tasks = make_all(folder, context, count)
        return Compared(ours=_ours(folder, tasks), stock=_stock(folder, tasks))


def _ours(folder: Path, tasks: dict[str, Path]) -> Ran:
    out = folder / "ours.json"
    named = [f"{name}={place}" for name, place in tasks.items()]
    wall, cpu = _run([sys.executable, "-m", "benchmarks.eval_ours", str(folder / "base"), str(out), *named], folder)
    return Ran(wall_s=wall, cpu_s=cpu, tasks=json.loads(out.read_text()))


def _stock(folder: Path, tasks: dict[str, Path]) -> Ran:
    out = folder / "stock"
    command = [sys.executable, "-m", "lm_eval", "run", "--model", "hf"]
    command += ["--model_args", f"pretrained={folder / 'base'},dtype=float32", "--tasks", ",".join(tasks)]
    command += ["--include_path", str(stock_tasks(folder / "tasks", tasks)), "--batch_size", _BATCH, "--device", "cpu"]
    wall, cpu = _run([*command, "--output_path", str(out), "--log_samples"], folder)
    return Ran(wall_s=wall, cpu_s=cpu, tasks={name: _stock_task(out, name) for name in tasks})


def _stock_task(out: Path, name: str) -> dict[str, Any]:
    (results,), (samples,) = out.rglob("results_*.json"), out.rglob(f"samples_{name}_*.jsonl")
    # With several metrics or filters lm-eval may write an item once for each.
    rows = {row["doc_id"]: row for row in map(json.loads, samples.read_text(encoding="utf-8").splitlines())}
    ordered = [rows[number] for number in sorted(rows)]
    answers = [choice for row in ordered for choice in row["filtered_resps"]]
    return {
        "acc": [row["acc"] for row in ordered],
        "value": json.loads(results.read_text())["results"][name]["acc,none"],
        "answers": [(float(likelihood), str(greedy) == "True") for likelihood, greedy in answers],
    }


def _greedy(task: dict[str, Any]) -> list[bool]:
    return [greedy for _, greedy in task["answers"]]


def _run(command: list[str], folder: Path) -> tuple[float, float]:
    """Seconds on the clock and of the processors that a command took. Raises RuntimeError where it fails."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "home")}
    started = time.monotonic()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **offline})
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - started
    if process.returncode:
        raise RuntimeError(f"{command[:4]} failed:\n{(folder / 'log').read_text(errors='replace')[-3000:]}")
    return wall, usage.ru_utime + usage.ru_stime
