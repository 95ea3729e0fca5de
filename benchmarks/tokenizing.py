"""Text to labelled ids on two cores, beside raw ``tokenizers`` on rendered texts and TRL's own preparation.

Ours is the whole way of a pack: rows of a Parquet file are read, rendered, encoded and labelled in two processes and
spooled. Raw is ``Tokenizer.encode_batch`` on the finished renderings with two threads, TRL is what SFTTrainer does to
its data set with assistant masks, at the better of one and two processes. All are warm, and timed in turn.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import tokenizing_peers as peers
from benchmarks.table import Figure
from ft_assets.workers.datasets.columns import TURN
from ft_assets.workers.datasets.engine.local import Mapper, processes
from ft_assets.workers.packs.documents.prepare import PrepareSettings
from ft_assets.workers.packs.documents.tokenize import tokenize_split
from ft_assets.workers.tokenizers.chat_template import load_template
from ft_assets.workers.tokenizers.choice import choose_encoder
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer

Rows = list[tuple[str, str]]
_REAL = {
    "gsm8k": ("gsm8k/train.jsonl", "question", "answer"),
    "dolly": ("dolly_6400/google_flan-t5-small_decode_output.jsonl", "instruction", "text"),
    "p3": ("p3_permissive/p3_permissive.jsonl", "prompt", "completion"),
}
_ROUNDS, _TRL_ROWS, _LONGEST = 3, 2_000, 1 << 20


def measure() -> dict[str, float]:
    """The figures by key; three to six minutes. Without ``FT_REAL_DATA`` on a small tokenizer and made-up words."""
    real = os.environ.get("FT_REAL_DATA")
    with tempfile.TemporaryDirectory() as scratch, processes(2) as mapper:
        if real is None:
            base = peers.make_base(Path(scratch) / "base")
            return {
                **_byte_level(base, {"generated": peers.made_up_rows(8_000)}, Path(scratch), mapper),
                "token_real": 0.0,
            }
        data = Path(real)
        rows = {name: list(_read(data / file, user, answer)) for name, (file, user, answer) in _REAL.items()}
        found = _byte_level(data / "hf_tokenizers" / "qwen2.5", rows, Path(scratch), mapper)
        other = _beside_raw(data / "tokenizers_ort" / "phi-3", {"gsm8k": rows["gsm8k"]}, Path(scratch), mapper)
        return {**found, "tokenize_vs_raw_other": other["ratio"], "token_real": 1.0}


def figures(found: dict[str, float]) -> list[Figure]:
    """Table rows of what ``measure`` found."""
    base = (
        "Qwen2.5, GSM8K, dolly, P3" if found["token_real"] else "a small byte-level BPE; set FT_REAL_DATA for Qwen2.5"
    )
    raw, trl = f"raw, {found['raw_tokens_s']:,.0f} tokens/s", f"TRL, {found['trl_tokens_s']:,.0f} tokens/s"
    rate = f"{found['tokens_s']:,.0f} tokens/s"
    return [
        _row(
            "tokenize_vs_raw_bpe", f"text to labelled ids, {rate}, times raw encode_batch ({base})", found, 5, 1.0, raw
        ),
        _row(
            "tokenize_vs_raw_other",
            "… for a tokenizer that is no byte-level BPE (Phi-3, GSM8K)",
            found,
            1.05,
            1.0,
            "raw",
        ),
        _row("ids_identical", f"examples with identical ids, of {found['compared']:,.0f}", found, 1.0),
        _row("tokenize_vs_trl", "… times SFTTrainer's preparation with assistant masks", found, 15, 1.0, trl),
    ]


def _row(
    key: str, what: str, found: dict[str, float], goal: float, peer: float | None = None, peer_is: str = ""
) -> Figure:
    ours = found.get(key)
    met = None if ours is None else ours >= goal
    return Figure(key=key, what=what, ours=ours, peer=peer, peer_is=peer_is, goal=f">= {goal:,}", met=met)


def _byte_level(folder: Path, rows: dict[str, Rows], scratch: Path, mapper: Mapper) -> dict[str, float]:
    found = _beside_raw(folder, rows, scratch, mapper)
    some = next(iter(rows.values()))[:_TRL_ROWS]
    trl = peers.TrlPreparation(folder, some)
    seconds = min(trl.seconds(count) for count in (1, 2))
    ours = found["seconds"] / found["compared"]
    return {
        "tokenize_vs_raw_bpe": found["ratio"],
        "ids_identical": found["identical"],
        "tokenize_vs_trl": seconds / len(some) / (found["first_seconds"] / found["first_examples"]),
        "tokens_s": found["tokens"] / found["seconds"],
        "raw_tokens_s": found["tokens"] / found["raw_seconds"],
        "trl_tokens_s": found["tokens"] / found["compared"] * len(some) / seconds,
        "example_us": ours * 1e6,
        "compared": found["compared"],
    }


def _beside_raw(folder: Path, rows: dict[str, Rows], scratch: Path, mapper: Mapper) -> dict[str, float]:
    """Seconds of ours and of raw over all rows, and how many examples have identical ids."""
    tokenizer = ChatTokenizer.load(folder)
    choice = choose_encoder(tokenizer, (text for each in rows.values() for row in each for text in row))
    print(f"{folder.name}: {choice.why}")
    settings = PrepareSettings(
        folder=folder,
        chat_template=None,
        form="chat",
        learn="all_assistant",
        max_length=_LONGEST,
        overlong="reject",
        encoder=choice.engine,
    )
    template = load_template(folder, tokenizer, None)
    sums = dict.fromkeys(("seconds", "raw_seconds", "tokens", "identical", "compared"), 0.0)
    for number, (name, each) in enumerate(rows.items()):
        path = scratch / f"{folder.name}-{name}.parquet"
        _write(each, path)
        rendered = [template.render(peers.messages(*row), where="a row") for row in each]
        with peers.RawTokenizer(folder, rendered) as raw:
            spool = tokenize_split(path, settings, mapper, scratch / f"{path.stem}-warm", _quiet).spool
            identical = _identical(raw.ids(), spool.input_ids, spool.lengths)
            ours, theirs = [], []
            for turn in range(_ROUNDS):
                theirs.append(raw.seconds())
                start = time.perf_counter()
                tokenize_split(path, settings, mapper, scratch / f"{path.stem}-{turn}", _quiet)
                ours.append(time.perf_counter() - start)
        if number == 0:
            sums |= {"first_seconds": min(ours), "first_examples": float(len(each))}
        for key, value in zip(sums, (min(ours), min(theirs), len(spool.input_ids), identical, len(each)), strict=False):
            sums[key] += value
    return {**sums, "ratio": sums["raw_seconds"] / sums["seconds"], "identical": sums["identical"] / sums["compared"]}


def _identical(expected: list[np.ndarray], ids: np.ndarray, lengths: np.ndarray) -> int:
    ends = np.cumsum(lengths)
    pairs = zip(expected, np.split(ids, ends[:-1]), strict=True)
    return sum(np.array_equal(one, other) for one, other in pairs)


def _read(path: Path, user: str, answer: str) -> Iterator[tuple[str, str]]:
    """Rows with both texts, white space around them gone as curation has it.

    P3's answers end with ``<|endoftext|>`` spelled out, which is a control token for raw ``tokenizers`` and text for
    us; it is no part of the answers.
    """
    for line in path.read_text().splitlines():
        row = json.loads(line)
        texts = row[user].strip(), row[answer].removesuffix("<|endoftext|>").strip()
        if all(texts):
            yield texts


def _write(rows: Rows, path: Path) -> None:
    nothing = {"tool_calls": "", "tool_call_id": "", "name": ""}
    table = {
        "id": [f"{number:064x}" for number in range(len(rows))],
        "messages": [[{**turn, **nothing} for turn in peers.messages(*row)] for row in rows],
        "file": ["rows.jsonl"] * len(rows),
        "row": list(range(1, len(rows) + 1)),
    }
    schema = pa.schema([("id", pa.string()), ("messages", pa.list_(TURN)), ("file", pa.string()), ("row", pa.int64())])
    pq.write_table(pa.table(table, schema=schema), path)


def _quiet(done: int, total: int) -> None:
    """No progress is shown."""
