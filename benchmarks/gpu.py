"""Training speed on one GPU: the worker's trainer beside stock TRL, random weights of real shapes, packed 4096, bf16.

``python -m benchmarks gpu [--tiny] [--only NAME] [--ours] [--save] [--set SETTING=VALUE ...]``; settings are those of
``gpu_cases.Case``. Each configuration runs in its own process; one that runs out of memory is tried again with less
(``gpu_cases.ladder``). ``--tiny`` runs everything at tiny size on a CPU, which proves the program and measures nothing;
``--save`` keeps the table in ``benchmarks/gpu_table.md``. A bench needs 20 GB of disk and 50 GB of memory for 8B.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.gpu_cases import CASES, Case, changed, ladder, tiny
from benchmarks.table import Figure
from ft_assets.settings.gpus import find_hardware

GOALS: Mapping[str, float] = {"full_8b": 12_500, "lora_8b": 16_000, "qlora_8b": 12_000, "full_1b": 52_000}
_PUBLISHED = {"full_8b": 10_471.0, "lora_8b": 12_473.0}
_MFU_GOAL, _TRL_GOAL = 0.60, 1.3
_TABLE = Path(__file__).parent / "gpu_table.md"
_TIMEOUT_S = 1_800


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A case as it was run at last, and what came of it: see ``gpu_case.Measured``; None where nothing did."""

    case: Case
    tokens_s: float | None
    mfu: float | None
    peak_gib: float | None


Run = Callable[[Case, Path], dict[str, Any] | None]


def measure(*arguments: str) -> list[Figure]:
    """Run what ``arguments`` ask for. Without a GPU everything but ``--tiny`` is None, and the reason is printed."""
    asked = _arguments(arguments)
    gpu = None if asked.tiny else gpu_name()
    if gpu is None and not asked.tiny:
        print("NOT MEASURED: this machine has no CUDA GPU. Every figure below is null; --tiny proves the program.")
        return figures([], tiny=False)
    settings = dict(text.split("=", 1) for text in asked.set)
    rows = []
    for case in CASES:
        if asked.only in (None, case.name):
            sized = changed(tiny(case) if asked.tiny else case, settings)
            with tempfile.TemporaryDirectory(prefix="ft-benchmark-base-") as folder:
                rows += compare(sized, Path(folder) / "base", gpu, in_process_of_its_own, peer=not asked.ours)
    table = markdown(rows, gpu or f"no GPU, tiny models on {platform.machine()}: these are not measurements")
    print(table)
    if asked.save and gpu is not None:
        _TABLE.write_text(table)
    return figures(rows, tiny=asked.tiny)


def compare(case: Case, base: Path, gpu: str | None, run: Run, *, peer: bool = True) -> list[Row]:
    """Ours and, with ``peer``, TRL's, each with as little recomputation as it has memory for."""
    return [_first_that_fits(replace(case, by=by), base, gpu, run) for by in (("ours", "trl") if peer else ("ours",))]


def _first_that_fits(case: Case, base: Path, gpu: str | None, run: Run) -> Row:
    tried = case
    for tried in ladder(case):
        print(f"{tried.name} by {tried.by}: {_settings(tried)}", file=sys.stderr, flush=True)
        found = run(tried, base)
        if found is None:
            break
        if not found.get("out_of_memory"):
            speed = found["tokens_s"]
            hardware = find_hardware(gpu) if gpu else None
            return Row(
                case=tried,
                tokens_s=speed,
                mfu=tried.mfu(speed, found["document_length"], hardware),
                peak_gib=found["peak_bytes"] / 2**30,
            )
    return Row(case=tried, tokens_s=None, mfu=None, peak_gib=None)


def in_process_of_its_own(case: Case, base: Path) -> dict[str, Any] | None:
    """What ``gpu_case`` printed; None where it failed for another reason than memory, which it has then said."""
    command = [sys.executable, "-m", "benchmarks.gpu_case", json.dumps(asdict(case)), str(base)]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        print(f"{case.name} by {case.by} took more than {_TIMEOUT_S} s", file=sys.stderr)
        return None
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def figures(rows: list[Row], *, tiny: bool) -> list[Figure]:
    """The table's figures; at tiny size none of them is held to a goal, nor reported as one."""
    ours = {row.case.name: row for row in rows if row.case.by == "ours" and not tiny}
    peers = {row.case.name: row for row in rows if row.case.by == "trl" and not tiny}
    speeds = {name: ours[name].tokens_s if name in ours else None for name in GOALS}
    made = [
        Figure(
            key=f"{name}_tok_s",
            what=f"{name.replace('_', ' ')}, tokens/s",
            ours=speeds[name],
            peer=peers[name].tokens_s if name in peers else None,
            peer_is="stock TRL" + (f"; best published {_PUBLISHED[name]:,.0f}" if name in _PUBLISHED else ""),
            goal=f">= {goal:,.0f}",
            met=_at_least(speeds[name], goal),
        )
        for name, goal in GOALS.items()
    ]
    mfu = ours["full_8b"].mfu if "full_8b" in ours else None
    made.insert(
        1,
        Figure(
            key="full_8b_mfu",
            what="full 8b, share of the GPU's peak",
            ours=mfu,
            peer=peers["full_8b"].mfu if "full_8b" in peers else None,
            peer_is="stock TRL",
            goal=f">= {_MFU_GOAL}",
            met=_at_least(mfu, _MFU_GOAL),
        ),
    )
    ratios = [
        speed / peers[name].tokens_s  # type: ignore[operator]
        for name, speed in speeds.items()
        if speed and name in peers and peers[name].tokens_s
    ]
    least = min(ratios, default=None)
    made.append(
        Figure(
            key="vs_trl",
            what="ours / stock TRL, the least of all configurations",
            ours=least,
            peer=1.0,
            peer_is="stock TRL",
            goal=f">= {_TRL_GOAL}",
            met=_at_least(least, _TRL_GOAL),
        )
    )
    return made


def markdown(rows: list[Row], device: str) -> str:
    """What was measured, on what, with which settings."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "trl", "peft"))
    lines = [
        f"Device: {device}. {packages}.",
        "",
        "| configuration | by | tokens/s | MFU | peak GiB | settings |",
        "|---|---|---:|---:|---:|---|",
    ]
    for row in rows:
        cells = (_text(row.tokens_s, ",.0f"), _text(row.mfu, ".1%"), _text(row.peak_gib, ".1f"))
        lines.append(f"| {row.case.name} | {row.case.by} | {' | '.join(cells)} | {_settings(row.case)} |")
    return "\n".join(lines) + "\n"


def gpu_name() -> str | None:
    """The first GPU's product name, asked in another process so that this one holds no memory there."""
    code = "import torch; print(torch.cuda.get_device_name(0) if torch.cuda.is_available() else '')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def _settings(case: Case) -> str:
    shown = {name: value for name, value in asdict(case).items() if name not in ("name", "shape", "by", "device")}
    return " ".join(f"{name}={value}" for name, value in shown.items())


def _at_least(value: float | None, goal: float) -> bool | None:
    return None if value is None else value >= goal


def _text(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _arguments(arguments: tuple[str, ...]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu")
    parser.add_argument("--tiny", action="store_true", help="tiny models on a CPU: proves the program")
    parser.add_argument("--only", choices=[case.name for case in CASES], help="one configuration")
    parser.add_argument("--ours", action="store_true", help="without the peer")
    parser.add_argument("--save", action="store_true", help=f"keep the table in benchmarks/{_TABLE.name}")
    parser.add_argument("--set", action="append", default=[], metavar="SETTING=VALUE", help="of every configuration")
    return parser.parse_args(arguments)
