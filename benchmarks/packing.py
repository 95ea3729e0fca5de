"""Packing beside TRL's ``pack_dataset``: windows beyond what the tokens need, and tokens/s from lengths to layout.

On GSM8K, dolly and P3 in Qwen2.5's template and tokens where ``FT_REAL_DATA`` is set, else on generated lengths like
theirs, in windows of 1,024, 2,048 and 4,096 tokens. Ours and TRL's are timed in turn, in CPU time of one process.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.table import Figure

WINDOWS = (1024, 2048, 4096)
_ROUNDS = 5
_GOAL = 250e6
_SYSTEM = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
_REAL = {
    "gsm8k": ("gsm8k/train.jsonl", "question", "answer"),
    "dolly": ("dolly_6400/google_flan-t5-small_decode_output.jsonl", "instruction", "text"),
    "p3": ("p3_permissive/p3_permissive.jsonl", "prompt", "completion"),
}


def measure() -> dict[str, float]:
    """The figures by key; about a minute, most of it for TRL and for tokenizing the real data."""
    data = os.environ.get("FT_REAL_DATA")
    excess = peer_excess = tokens = windows = 0
    seconds = peer_seconds = 0.0
    for lengths in dict(real_lengths(Path(data)) if data else generated_lengths()).values():
        for window in WINDOWS:
            needed = -(-int(lengths.sum()) // window)
            ours, theirs = _ours(lengths, window), _theirs(lengths, window)
            ours()
            (count, spent), (peer_count, peer_spent) = _best(ours, _ROUNDS), _best(theirs, 1)
            excess, peer_excess = excess + count - needed, peer_excess + peer_count - needed
            seconds, peer_seconds = seconds + spent, peer_seconds + peer_spent
            tokens, windows = tokens + int(lengths.sum()), windows + needed
    return {
        "windows_over_bound": excess,
        "peer_windows_over_bound": peer_excess,
        "windows_needed": windows,
        "pack_tokens_s": tokens / seconds,
        "peer_pack_tokens_s": tokens / peer_seconds,
        "pack_real": float(bool(data)),
    }


def figures(found: dict[str, float]) -> list[Figure]:
    """Table rows of what ``measure`` found."""
    lengths = "GSM8K, dolly, P3" if found["pack_real"] else "generated lengths; set FT_REAL_DATA for real ones"
    return [
        Figure(
            key="windows_over_bound",
            what=f"windows beyond ceil(tokens / length), of {found['windows_needed']:,.0f} ({lengths})",
            ours=found["windows_over_bound"],
            peer=found["peer_windows_over_bound"],
            peer_is="TRL pack_dataset, bfd",
            goal="0",
            met=found["windows_over_bound"] == 0,
        ),
        Figure(
            key="pack_tokens_s",
            what="packing, lengths to layout, tokens/s on one core",
            ours=found["pack_tokens_s"],
            peer=found["peer_pack_tokens_s"],
            peer_is="TRL pack_dataset, bfd, which also moves the tokens",
            goal=f">= {_GOAL:,.0f}",
            met=found["pack_tokens_s"] >= _GOAL,
        ),
    ]


def real_lengths(data: Path) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Name and token counts, int64 [conversations], of each data set, rendered as Qwen2.5's template does."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(data / "hf_tokenizers/qwen2.5/tokenizer.json"))
    for name, (file, prompt, answer) in _REAL.items():
        with (data / file).open(encoding="utf-8") as lines:
            texts = [_rendered(row[prompt], row[answer]) for row in map(json.loads, lines)]
        encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        yield name, np.array([len(encoding) for encoding in encodings], np.int64)


def generated_lengths() -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Log-normal lengths with the counts, medians and spreads of the real sets."""
    draws = np.random.RandomState(1)
    for name, count, median, spread, longest in (
        ("like gsm8k", 7473, 200, 0.33, 567),
        ("like dolly", 6400, 92, 0.45, 293),
        ("like p3", 20010, 200, 0.65, 829),
    ):
        lengths = np.exp(draws.standard_normal(count) * spread) * median
        yield name, np.clip(lengths, 36, longest).astype(np.int64)


def _rendered(prompt: str, answer: str) -> str:
    turns = (("system", _SYSTEM), ("user", prompt), ("assistant", answer))
    return "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in turns)


def _best(work: Callable[[], int], rounds: int) -> tuple[int, float]:
    """What ``work`` returns, and the CPU seconds of its fastest round."""
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        count = work()
        seconds.append(time.process_time() - start)
    return count, min(seconds)


def _ours(lengths: NDArray[np.int64], window: int) -> Callable[[], int]:
    from ft_assets.workers.packs.packing import pack

    return lambda: len(pack(lengths, max_length=window, seed=0).window_offsets) - 1


def _theirs(lengths: NDArray[np.int64], window: int) -> Callable[[], int]:
    import datasets
    import pyarrow as pa
    from trl.data_utils import pack_dataset

    offsets = pa.array(np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)]))
    ids = pa.ListArray.from_arrays(offsets, pa.array(np.zeros(int(lengths.sum()), np.int32)))
    rows = datasets.Dataset(pa.table({"input_ids": ids}))
    datasets.disable_progress_bars()
    return lambda: len(pack_dataset(rows, window, "bfd", {"load_from_cache_file": False}))
