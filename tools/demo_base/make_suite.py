"""Make the demo's two shipped texts from Jane Austen's novels (public domain; she died in 1817).

    python -m tools.demo_base.make_suite --austen DIR      # DIR: unpacked janeaustenr package, see books.py

* ``suites/book_cloze/items.jsonl`` from *Persuasion*, which the base never trained on: 24 words and four
  possible next 9 words. The wrong ones are right answers of other items with nearly the same length, so the
  endings alone give no hint and guessing scores 25 %.
* ``replay.txt`` from *Mansfield Park*, on which the base did train: neighbouring paragraphs that the demo mixes
  into its training rows against forgetting.

Same package, same bytes: every choice is seeded.
"""

import argparse
import json
import random
from itertools import pairwise
from pathlib import Path

from tools.demo_base.books import austen_novels

DEMO = Path(__file__).parents[2] / "ft_assets/demo"
CONTEXT_WORDS = 24
ENDING_WORDS = 9
STRIDE = 80  # words from one possible item to the next in a long paragraph: items never overlap
REPLAY_CHARACTERS = 170_000


def cloze_items(novel: str, count: int, seed: int = 5) -> list[dict[str, object]]:
    """`count` items ``{"id", "context", "choices", "label"}``, at most one from a paragraph."""
    rng = random.Random(seed)
    spans: list[tuple[str, str]] = []
    for paragraph in novel.split("\n\n"):
        words = paragraph.split()
        spare = len(words) - CONTEXT_WORDS - ENDING_WORDS
        for part in range(0, spare + 1, STRIDE):
            start = rng.randint(part, min(spare, part + STRIDE - CONTEXT_WORDS - ENDING_WORDS))
            middle = start + CONTEXT_WORDS
            spans.append((" ".join(words[start:middle]), " ".join(words[middle : middle + ENDING_WORDS])))
    spans = rng.sample(spans, k=min(count, len(spans)))
    spans.sort(key=lambda span: len(span[1]))
    items: list[dict[str, object]] = []
    for place, (context, ending) in enumerate(spans):
        near = [s[1] for s in spans[max(0, place - 12) : place + 13] if s[1] != ending]
        choices = [ending, *rng.sample(near, k=3)]
        rng.shuffle(choices)
        items.append({"context": context, "choices": choices, "label": choices.index(ending)})
    rng.shuffle(items)
    return [{"id": number} | item for number, item in enumerate(items)]


def replay_text(novel: str) -> str:
    """Paragraphs of 60 to 420 characters whose neighbour also qualifies, from the start of the novel."""
    paragraphs = novel.split("\n\n")[8:]
    keep = [60 <= len(p) <= 420 for p in paragraphs]
    chosen: list[str] = []
    size = 0
    for place, (this, _) in enumerate(pairwise(keep)):
        if this and (keep[place + 1] or (place and keep[place - 1])) and size < REPLAY_CHARACTERS:
            chosen.append(paragraphs[place])
            size += len(paragraphs[place])
    return "\n\n".join(chosen) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--austen", type=Path, required=True, help="unpacked janeaustenr package folder")
    parser.add_argument("--items", type=int, default=1000)
    args = parser.parse_args()
    novels = austen_novels(args.austen)
    items = cloze_items(novels["persuasion"], args.items)
    suite = DEMO / "suites/book_cloze/items.jsonl"
    suite.parent.mkdir(parents=True, exist_ok=True)
    suite.write_text("".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items), encoding="utf-8")
    (DEMO / "replay.txt").write_text(replay_text(novels["mansfieldpark"]), encoding="utf-8")


if __name__ == "__main__":
    main()
