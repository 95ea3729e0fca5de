"""Training speed on one GPU: the worker's trainer beside stock TRL, random weights of real shapes, packed 4096, bf16.

``python -m benchmarks gpu [--tiny] [--only NAME] [--by ours|trl] [--minutes N] [--save] [--set SETTING=VALUE ...]``;
settings are those of ``gpu_cases.Case``. Each configuration runs in its own process; one that runs out of memory is
tried again with less (``gpu_cases.ladder``). ``--minutes`` ends the call in time, with what was measured until then.
``--save`` adds each measurement at once to ``benchmarks/gpu_rows.jsonl`` and writes the table of all of them, so that a
call may measure one configuration. ``--tiny`` runs everything at tiny size on a CPU, which proves the program and
measures nothing. A bench needs 20 GB of disk and 50 GB of memory for 8B; TRL is needed for its own rows only.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from benchmarks.gpu_cases import CASES, By, Case, changed, ladder, tiny
from benchmarks.table import Figure
from ft_assets.settings.gpus import find_hardware

GOALS: Mapping[str, float] = {"full_8b": 12_500, "lora_8b": 16_000, "qlora_8b": 12_000, "full_1b": 52_000}
_PUBLISHED = {"full_8b": 10_471.0, "lora_8b": 12_473.0}
_MFU_GOAL, _TRL_GOAL, _MEMORY_GOAL = 0.60, 1.3, 0.1
_TABLE, _ROWS = (Path(__file__).parent / name for name in ("gpu_table.md", "gpu_rows.jsonl"))
_BY: tuple[By, ...] = ("ours", "trl")


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A case as it was run at last, and what came of it: see ``gpu_case.Measured``; None where nothing did.
    ``predicted_gib`` is what the memory model expected of ours at ``peak_gib``."""

    case: Case
    tokens_s: float | None
    mfu: float | None
    peak_gib: float | None
    predicted_gib: float | None = None

    @property
    def peak_share(self) -> float | None:
        """The measured peak as a share of the predicted one."""
        return self.peak_gib / self.predicted_gib if self.peak_gib and self.predicted_gib else None


Run = Callable[[Case, Path], dict[str, Any] | None]


def measure(*arguments: str) -> list[Figure]:
    """Run what ``arguments`` ask for. Without a GPU everything but ``--tiny`` is None, and the reason is printed."""
    asked = _arguments(arguments)
    gpu = None if asked.tiny else gpu_name()
    if gpu is None and not asked.tiny:
        print("NOT MEASURED: this machine has no CUDA GPU. Every figure below is null; --tiny proves the program.")
        return figures([], tiny=False)
    settings = dict(text.split("=", 1) for text in asked.set)
    run = in_processes(asked.minutes)
    rows = []
    for case in CASES:
        if asked.only not in (None, case.name):
            continue
        sized = changed(tiny(case) if asked.tiny else case, settings)
        with tempfile.TemporaryDirectory(prefix="ft-benchmark-base-") as folder:
            for by in _BY:
                if asked.by in (None, by) and _there(by):
                    rows.append(compare(replace(sized, by=by), Path(folder) / "base", gpu, run))
                    if asked.save and gpu is not None:
                        save(rows[-1], gpu, _ROWS, _TABLE)
    print(markdown(rows, gpu or f"no GPU, tiny models on {platform.machine()}: these are not measurements"))
    return figures(rows, tiny=asked.tiny)


def _there(by: By) -> bool:
    if by == "trl" and find_spec("trl") is None:
        print("TRL is not installed: no rows of its own", file=sys.stderr)
        return False
    return True


def compare(case: Case, base: Path, gpu: str | None, run: Run) -> Row:
    """The case with as little recomputation as it has memory for."""
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
                predicted_gib=tried.predicted_bytes / 2**30 if tried.by == "ours" else None,
            )
    return Row(case=tried, tokens_s=None, mfu=None, peak_gib=None)


def in_processes(minutes: float) -> Run:
    """A function that runs a case in a process of its own and gives what ``gpu_case`` printed; None where it failed for
    another reason than memory, which it has then said, or was not done ``minutes`` from now."""
    end = time.monotonic() + 60 * minutes

    def run(case: Case, base: Path) -> dict[str, Any] | None:
        command = [sys.executable, "-m", "benchmarks.gpu_case", json.dumps(asdict(case)), str(base)]
        root, left = Path(__file__).parent.parent, end - time.monotonic()
        try:
            done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=max(left, 0), check=False)
        except subprocess.TimeoutExpired:
            print(f"{case.name} by {case.by} was not done in the {minutes:g} minutes of this call", file=sys.stderr)
            return None
        if done.returncode:
            print(done.stderr[-2000:], file=sys.stderr)
            return None
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    return run


def save(row: Row, gpu: str, rows: Path, table: Path) -> None:
    """Add ``row`` to the measurements in ``rows``, and write the table of all of them."""
    with rows.open("a") as file:
        file.write(json.dumps({"gpu": gpu, **asdict(row)}) + "\n")
    read = TypeAdapter(Row)
    by_gpu: dict[str, list[Row]] = {}
    for line in rows.read_text().splitlines():
        values = json.loads(line)
        by_gpu.setdefault(values.pop("gpu"), []).append(read.validate_python(values))
    table.write_text("\n".join(markdown(found, name) for name, found in by_gpu.items()))


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
    off = max((abs(row.peak_share - 1) for row in ours.values() if row.peak_share), default=None)
    made.append(
        Figure(
            key="peak_off",
            what="peak memory, how far the worst is from what was predicted",
            ours=off,
            peer=None,
            peer_is="none",
            goal=f"<= {_MEMORY_GOAL}",
            met=None if off is None else off <= _MEMORY_GOAL,
        )
    )
    return made


def markdown(rows: list[Row], device: str) -> str:
    """What was measured, on what, with which settings."""
    packages = ", ".join(f"{name} {_version(name)}" for name in ("torch", "transformers", "trl", "peft"))
    lines = [
        f"Device: {device}. {packages}.",
        "",
        "| configuration | by | tokens/s | MFU | peak GiB | predicted | peak / predicted | settings |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        cells = [_text(row.tokens_s, ",.0f"), _text(row.mfu, ".1%"), _text(row.peak_gib, ".1f")]
        cells += [_text(row.predicted_gib, ".1f"), _text(row.peak_share, ".2f")]
        lines.append(f"| {row.case.name} | {row.case.by} | {' | '.join(cells)} | {_settings(row.case)} |")
    return "\n".join(lines) + "\n"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


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
    parser.add_argument("--by", choices=_BY, help="only our trainer or only the peer's")
    parser.add_argument("--minutes", type=float, default=9.0, help="until the call ends, with what it has then")
    parser.add_argument("--save", action="store_true", help=f"keep rows and table in benchmarks/{_TABLE.name}")
    parser.add_argument("--set", action="append", default=[], metavar="SETTING=VALUE", help="of every configuration")
    return parser.parse_args(arguments)
