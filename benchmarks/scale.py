"""What a row costs in each phase of curation and packing: seconds of a core, disk and memory.

One process does everything, so that each phase's seconds are its own. ``FT_BENCH_ROWS`` sets the number of rows
(1,000,000), ``FT_REAL_DATA`` the folder with Qwen2.5's tokenizer; without it a small one is trained on made-up words.
What follows for 100 million rows is in docs/explanation/scale.md.
"""

import os
import resource
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks import tokenizing_peers as peers
from benchmarks.datasets_rows import suite_items, write_rows
from benchmarks.table import Figure, goal_figure
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.engine.chunks import open_chunk, to_ipc
from ft_assets.workers.datasets.engine.local import in_process
from ft_assets.workers.datasets.intake.spool import spool
from ft_assets.workers.datasets.pipeline import Inputs, Means, curate_upload
from ft_assets.workers.datasets.similarity.items import ItemIndex
from ft_assets.workers.packs.documents.prepare import PrepareSettings
from ft_assets.workers.packs.documents.tokenize import texts_of, tokenize_split
from ft_assets.workers.packs.format import PackWriter
from ft_assets.workers.packs.packing import pack
from ft_assets.workers.suites.asked import Asked
from ft_assets.workers.tokenizers.choice import choose_encoder
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer

_ROWS, _WINDOW = 1_000_000, 4096


@dataclass
class Phases:
    """Core seconds, seconds and most memory (bytes, mapped files aside) of each phase, in their order."""

    core_s: dict[str, float] = field(default_factory=dict)
    clock_s: dict[str, float] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    now: str = ""

    def begin(self, name: str) -> None:
        """What follows belongs to the phase ``name``, "" to none."""
        if name == self.now:
            return
        cores, clock = _core_s(), time.perf_counter()
        for sums, value in ((self.core_s, cores), (self.clock_s, clock)):
            if self.now:
                sums[self.now] += value
            if name:
                sums[name] = sums.get(name, 0.0) - value
        self.now = name

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Memory is looked at ten times a second."""
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.1):
                if self.now:
                    self.memory[self.now] = max(self.memory.get(self.now, 0), _own_bytes())

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def measure(seed: int = 2) -> list[Figure]:
    """Run everything once, after a small run that compiles the kernels: three minutes."""
    rows = int(os.environ.get("FT_BENCH_ROWS", _ROWS))
    with tempfile.TemporaryDirectory(prefix="ft-benchmark-") as name:
        (Path(name) / "small").mkdir()
        _run(Path(name) / "small", 2_000, seed)
        (Path(name) / "whole").mkdir()
        return _run(Path(name) / "whole", rows, seed)


def _run(folder: Path, rows: int, seed: int) -> list[Figure]:
    phases, sizes = Phases(), dict[str, float]()
    with phases.watched():
        _curate(folder, rows, seed, phases, sizes)
        _pack(folder, phases, sizes)
        phases.begin("")
    figures = []
    for phase in phases.core_s:
        key = phase.replace(" ", "_")
        figures += [
            goal_figure(
                f"{key}_us", f"{phase}: core seconds of a million rows", phases.core_s[phase] / rows * 1e6, None
            ),
            goal_figure(f"{key}_clock_us", "… seconds on the clock", phases.clock_s[phase] / rows * 1e6, None),
            goal_figure(f"{key}_gb", "… memory at most, maps aside, GB", phases.memory.get(phase, 0) / 1e9, None),
        ]
    figures += [goal_figure(f"{key}_bytes", f"{key}, bytes a row", value / rows, None) for key, value in sizes.items()]
    return figures


def _curate(folder: Path, rows: int, seed: int, phases: Phases, sizes: dict[str, float]) -> None:
    path, output, scratch = folder / "rows.jsonl", folder / "dataset", folder / "scratch"
    write_rows(path, rows, seed=seed)
    output.mkdir()
    scratch.mkdir()
    policy = DatasetPolicy()
    ItemIndex.build([("generated", [Asked.of(text, []) for text in suite_items().to_pylist()])], folder / "items")
    phases.begin("upload's digest")
    spools = [spool(path, path.name, folder / "spools", role="upload", text=policy.text)]
    curate_upload(
        Inputs(spools=spools, policy=policy, index=folder / "items", suites=("made",), suite_digests=("made",)),
        output,
        Means(scratch=scratch, progress=lambda phase, _rows: phases.begin(phase)),
    )
    phases.begin("")
    chunks = sorted((scratch / "chunks").rglob("*.arrow"))
    sizes["upload"] = path.stat().st_size
    sizes["prepared"] = sum(chunk.stat().st_size for chunk in chunks)
    sizes["other_scratch"] = _size(scratch) - sizes["prepared"]
    sizes["dataset"] = _size(output)
    print(f"{rows:,} rows, {len(chunks)} chunks, {len(to_ipc(open_chunk(str(chunks[0])))):,} bytes of the first")
    print(f"test items: {(folder / 'items').stat().st_size:,} bytes")


def _pack(folder: Path, phases: Phases, sizes: dict[str, float]) -> None:
    data = os.environ.get("FT_REAL_DATA")
    base = Path(data) / "hf_tokenizers" / "qwen2.5" if data else peers.make_base(folder / "base")
    train = folder / "dataset" / "train.parquet"
    phases.begin("encoder's choice")
    choice = choose_encoder(ChatTokenizer.load(base), texts_of([train]))
    settings = PrepareSettings(
        folder=base,
        chat_template=None,
        form="chat",
        learn="all_assistant",
        max_length=_WINDOW,
        overlong="drop",
        encoder=choice.engine,
    )
    phases.begin("tokenizing")
    spooled = tokenize_split(train, settings, in_process, folder / "spool", lambda done, total: None).spool
    phases.begin("packing")
    layout = pack(spooled.lengths, max_length=_WINDOW, seed=1)
    phases.begin("pack's files")
    PackWriter(folder / "pack", "train", "chat", _WINDOW).write(spooled, layout)
    phases.begin("")
    sizes["spool"], sizes["pack"] = _size(folder / "spool"), _size(folder / "pack")
    print(f"{len(spooled.lengths):,} rows of training with {int(np.sum(spooled.lengths)):,} tokens")
    print(f"{choice.why}; {len(layout.window_offsets) - 1:,} windows")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _core_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _own_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))
