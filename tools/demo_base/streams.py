"""The token streams that the base is trained on: prose, tiled repetition, synthetic copying, dialogue."""

import random
import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from tools.demo_base.base_model import CONTEXT, SPECIALS, build_tokenizer, render
from tools.demo_base.books import austen_novels, dialogues, gutenberg_books
from tools.demo_base.copying import Copies, Turns

SUITE_NOVEL = "persuasion"
HELD_OUT_SHARE = 0.02
COPY_DOCUMENTS = 30_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Streams:
    """Token streams to draw windows from, as flat uint16 arrays."""

    prose: np.ndarray
    validation: np.ndarray
    copying: np.ndarray
    chat: np.ndarray


def load_books(books: Path, austen: Path | None) -> dict[str, str]:
    """All training books by name; Austen's novels only where Gutenberg's folder lacks them; never the suite's."""
    found = gutenberg_books(books)
    for name, text in (austen_novels(austen) if austen else {}).items():
        known = any(text[50_000:50_200] in other for other in found.values())
        if name != SUITE_NOVEL and not known:
            found[name] = text
    if not found:
        raise ValueError(f"no books (*.txt named by Gutenberg number) in {books}: give a folder that has some")
    return found


def chat_turns(text: str, rng: random.Random) -> list[Turns]:
    """Dialogue as chats, and paragraphs as "go on" chats: the register of both roles, and where a turn ends."""
    chats: list[Turns] = []
    for run in dialogues(text):
        roles = ("user", "assistant")
        turns = [(roles[i % 2], speech) for i, speech in enumerate(run[: len(run) - len(run) % 2])]
        if rng.random() < 0.15:
            turns.insert(0, ("system", "Speak as a person in a novel."))
        chats.append(turns)
    parts = text.split("\n\n")
    for first, second in pairwise(parts):
        if rng.random() < 0.12 and 60 < len(first) < 700 and 60 < len(second) < 700:
            chats.append([("user", first), ("assistant", second)])
    return chats


def frequent_words(text: str, count: int) -> list[str]:
    """The commonest lower-case words of 2 to 9 letters, to build identifiers from."""
    tally = Counter(re.findall(r"\b[a-z]{2,9}\b", text))
    return [word for word, _ in tally.most_common(count)]


def windows(stream: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """`count` windows of CONTEXT + 1 tokens at random places."""
    starts = rng.integers(0, len(stream) - CONTEXT - 1, size=count)
    return np.stack([stream[s : s + CONTEXT + 1] for s in starts]).astype(np.int64)


def tiled(stream: np.ndarray, vocab: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Windows that repeat a segment of 3 to 100 tokens, half of them of prose, half of uniform noise."""
    rows = []
    for _ in range(count):
        size = int(np.exp(rng.uniform(np.log(3), np.log(100))))
        start = rng.integers(0, len(stream) - size)
        piece = stream[start : start + size] if rng.random() < 0.5 else rng.integers(len(SPECIALS), vocab, size=size)
        rows.append(np.tile(piece, (CONTEXT + 1) // size + 1)[: CONTEXT + 1])
    return np.stack(rows).astype(np.int64)


def batch(streams: Streams, mix: tuple[float, ...], rows: int, vocab: int, rng: np.random.Generator) -> torch.Tensor:
    """`rows` windows drawn by the mix's shares."""
    n = rng.multinomial(rows, mix)
    parts = [
        windows(streams.prose, n[0], rng) if n[0] else None,
        tiled(streams.prose, vocab, n[1], rng) if n[1] else None,
        windows(streams.copying, n[2], rng) if n[2] else None,
        windows(streams.chat, n[3], rng) if n[3] else None,
    ]
    return torch.from_numpy(np.concatenate([p for p in parts if p is not None]))


def prepare(
    books: dict[str, str], seed: int, tokenizer: PreTrainedTokenizerFast | None = None
) -> tuple[PreTrainedTokenizerFast, Streams, float]:
    """Tokenizer (None: a new one is trained), streams and bytes per token of held-out prose."""
    rng = random.Random(seed)
    kept = {name: text[: int(len(text) * (1 - HELD_OUT_SHARE))] for name, text in books.items()}
    held = "\n\n".join(text[len(kept[name]) :] for name, text in books.items())
    prose = "\n\n\n".join(kept.values())
    copies = Copies(frequent_words(prose, 4000), seed)
    documents = [copies.document() for _ in range(COPY_DOCUMENTS)]
    code_like = ["\n".join(text for _, text in document) for document in documents[: COPY_DOCUMENTS * 2 // 5]]
    tokenizer = tokenizer or build_tokenizer(list(kept.values()), code_like)
    chats = [c for text in kept.values() for c in chat_turns(text, rng)]
    rng.shuffle(chats)

    def stream(texts: list[str]) -> np.ndarray:
        encoded = tokenizer(texts, add_special_tokens=False)["input_ids"]
        return np.concatenate([np.asarray(ids, dtype=np.uint16) for ids in encoded])

    validation = stream([held])
    streams = Streams(
        prose=stream(prose.split("\n\n\n")),
        validation=validation,
        copying=stream([render(d) for d in documents]),
        chat=stream([render(c) for c in chats]),
    )
    return tokenizer, streams, len(held.encode()) / len(validation)
