"""Test items in the dresses that people paste them in, and clean rows, looked up as curation does.

Items are of MMLU, GSM8K, ARC, HellaSwag, OpenBookQA and TruthfulQA. Each seed draws ``_CLEAN`` of 75,000 clean rows:
those that the index was tuned on (Dolly, Open Assistant, GPTeacher, HH-RLHF, TinyStories) and, four of five, those of
data that it was not (P3, GSM8K's training rows, BoolQ, PIQA, SIQA, CSQA, WinoGrande, BFCL, books cut anywhere, plays).
All are under ``FT_REAL_DATA``. ``python -m benchmarks.contamination SEED`` prints recall by dress and every clean row
that was flagged, to be looked at.
"""

import csv
import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.table import Figure

_PER_DRESS = 300
_CLEAN = 20_000
# A run of so many words of an item is the item's.
_QUOTED = 30
_DOCUMENT = 1500
_CHOICES = ("arc_easy", "arc_challenge", "hellaswag", "openbookqa")
_BOLD = str.maketrans(
    {chr(97 + n): chr(0x1D41A + n) for n in range(26)} | {chr(65 + n): chr(0x1D400 + n) for n in range(26)}
)
_WIDE = str.maketrans({chr(code): chr(code + 0xFEE0) for code in range(0x21, 0x7F)} | {" ": "\u3000"})

Row = dict[str, Any]
Dress = Callable[[random.Random, Any, str], Row]


def figures(seed: int = 1) -> list[Figure]:
    """Recall in the worst dress and false flags, for the table of ``datasets``; None without FT_REAL_DATA."""
    recall, false = None, None
    if "FT_REAL_DATA" in os.environ:
        recalls, flagged, clean = measure(seed)
        recall = min(found / due for found, due in recalls.values())
        false = 10_000 * sum(not each.holds for each in flagged) / clean
        print(f"of 10,000 clean rows flagged, with those that quote an item: {10_000 * len(flagged) / clean:.2f}")
    return [
        _figure("contamination_dressed_recall", "dressed test items found, least of all dresses", recall, ">= 0.95"),
        _figure("contamination_false_per_10k", "of 10,000 clean rows flagged that quote no item", false, "<= 1"),
    ]


def _figure(key: str, what: str, ours: float | None, goal: str) -> Figure:
    relation, bound = goal.split()
    met = None if ours is None else ours >= float(bound) if relation == ">=" else ours <= float(bound)
    return Figure(key=key, what=what, ours=ours, peer=None, peer_is="", goal=goal, met=met)


@dataclass(frozen=True, kw_only=True, slots=True)
class Flag:
    """A clean row that was flagged: its ``name``, what is known ``about`` it, and whether it ``holds`` a test item."""

    name: str
    about: str
    holds: bool


def measure(seed: int) -> tuple[dict[str, tuple[int, int]], list[Flag], int]:
    """(found, given) by dress; the clean rows that were flagged; the number of clean rows."""
    from ft_assets.workers.datasets.similarity.items import ItemIndex

    data, generator = Path(os.environ["FT_REAL_DATA"]), random.Random(seed)
    tests = suites()
    prose = "\n".join(path.read_text(errors="replace") for path in sorted((data / "gutenberg_books").rglob("*.txt")))
    with tempfile.TemporaryDirectory() as folder:
        index = ItemIndex.build(tests, Path(folder) / "index")
        recalls = {}
        for name, dress in DRESSES.items():
            rows = []
            for _ in range(_PER_DRESS):
                items = generator.choice(tests)[1]
                if name.startswith("short"):
                    items = [item for item in items if len(item.questions[0].split()) < 9]
                if items:
                    at = generator.randrange(len(prose) - 2 * _DOCUMENT)
                    rows.append(dress(generator, generator.choice(items), prose[at : at + _DOCUMENT]))
            found, _ = _find(index, rows)
            recalls[name] = int(found.leaks(0.5).sum()), len(rows)
        asked = {_bare(item.questions[0]) for _, items in tests for item in items}
        known = [*_tuned_on(data), *_held_out(data, generator)]
        names, rows = zip(*generator.sample(known, _CLEAN), strict=True)
        flagged = []
        found, read = _find(index, list(rows))
        for at in found.leaks(0.5).nonzero()[0].tolist():
            row, item = read[at], index.text(int(found.item[at])) if found.item[at] >= 0 else ""
            about = f"whole {found.whole[at]} share {found.share[at]:.2f} choices {found.choices[at]} "
            about += f"grams {found.hits[at]}/{found.grams[at]} of {index.suites[max(found.source[at], 0)]}"
            about += f"\n  ROW {_said(rows[row])!r}\n  ITEM {item!r}"
            flagged.append(Flag(name=names[row], about=about, holds=_holds(rows[row], item, asked)))
    return recalls, flagged, len(read)


def _holds(row: Row, item: str, asked: set[str]) -> bool:
    """Whether a turn is a test question, word for word, or quotes ``_QUOTED`` words of ``item``: a true find."""
    turns, words = [_bare(turn["content"]) for turn in row["messages"]], _bare(item).split()
    runs = (" ".join(words[at : at + _QUOTED]) for at in range(len(words) - _QUOTED + 1))
    return bool(asked.intersection(turns)) or any(run in turn for run in runs for turn in turns)


def _bare(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _said(row: Row) -> str:
    return " ¶ ".join(turn["content"] for turn in row["messages"])[:600]


def _find(index: Any, rows: list[Row]) -> tuple[Any, list[int]]:
    """What is found in the rows that can be read, and the numbers of those."""
    from ft_assets.workers.datasets.forms.content_keys import flat_texts

    examples = _examples(rows)
    return index.find_in(examples, flat_texts(examples)), [row - 1 for row in examples.column("row").to_pylist()]


def _examples(rows: list[Row]) -> Any:
    from ft_assets.settings.dataset.policy import DatasetPolicy
    from ft_assets.workers.datasets.forms.parse import FormSettings, parse_lines

    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    return parse_lines(lines, FormSettings.of(DatasetPolicy()), ended=True).examples


def _chat(*turns: str) -> Row:
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[n % 2], "content": text} for n, text in enumerate(turns)]}


def _question(item: Any) -> str:
    question: str = item.questions[0]
    return question


def _lettered(generator: random.Random, item: Any) -> str:
    """Question and choices in any order, with any label or none."""
    choices = list(item.choices)
    generator.shuffle(choices)
    style = generator.choice(["{}", "{l}. {}", "({l}) {}", "{l}) {}", "{n}. {}"])
    lines = [style.format(text, l="ABCDEFGHIJKLMNOP"[n % 16], n=n + 1) for n, text in enumerate(choices)]
    return "\n".join([_question(item), *lines])


def _pasted(generator: random.Random, item: Any) -> str:
    return _question(item) if generator.random() < 0.5 else _lettered(generator, item)


def _each_word(text: str, change: Callable[[str], str]) -> str:
    return re.sub(r"\S+", lambda found: change(found.group()), text)


def _bold(generator: random.Random, text: str) -> str:
    style = generator.choice(["**{}**", "__{}__", "<b>{}</b>", "<strong>{}</strong>", "***{}***", ""])
    return _each_word(text, lambda word: style.replace("{}", word)) if style else text.translate(_BOLD)


def marked_up(generator: random.Random, text: str) -> str:
    """``text`` with each word in some markup."""

    def one(word: str) -> str:
        styles = ["{}", "*{}*", "_{}_", "`{}`", "~~{}~~", "<i>{}</i>", "<code>{}</code>", "[{}](https://a.example/b)"]
        styles += ['<span style="color: red">{}</span>', "<em>{}</em>", "<u>{}</u>", "<!-- x -->{}", "{}<br/>", "in"]
        style = generator.choice(styles)
        inner = len(word) // 2
        if style == "in":
            return f"{word[:inner]}**{word[inner:]}**" if inner else word
        return style.replace("{}", word)

    head = generator.choice(["# ", "> ", "- ", "1. ", "<p>", "<div class='q'>", "| "])
    return head + _each_word(text, one)


def hidden(generator: random.Random, text: str) -> str:
    """``text`` with zero-width characters in it."""
    marks = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
    return "".join(letter + (generator.choice(marks) if generator.random() < 0.3 else "") for letter in text)


def confused(generator: random.Random, text: str) -> str:
    """``text`` with half of its letters as others that look the same."""
    alike = _alike()
    return "".join(
        generator.choice(alike[letter]) if letter in alike and generator.random() < 0.5 else letter for letter in text
    )


def _alike() -> dict[str, list[str]]:
    """By letter the characters with its skeleton, as Unicode lists them (case counts)."""
    import unicodedata

    from ft_assets.workers.datasets.similarity.folding import CONFUSABLES

    found: dict[str, list[str]] = {}
    for line in CONFUSABLES.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            letter, *codes = line.split(" ")
            for code in codes:
                character = chr(int(code, 16))
                upper = unicodedata.category(character) == "Lu" and letter.isalpha()
                found.setdefault(letter.upper() if upper else letter, []).append(character)
    return found


def _plain_answer(generator: random.Random) -> str:
    return generator.choice(["I will think about it.", "Sure, here it is.", "The right one is the second.", "B"])


def _in_document(generator: random.Random, item: Any, prose: str) -> Row:
    at = generator.randrange(len(prose))
    return _chat(f"{prose[:at]}\n\n{_pasted(generator, item)}\n\n{prose[at:]}", _plain_answer(generator))


def _split(generator: random.Random, item: Any, prose: str) -> Row:
    words = _pasted(generator, item).split(" ")
    half = max(1, len(words) // 2)
    first, second = " ".join(words[:half]), " ".join(words[half:])
    if generator.random() < 0.5:
        return _chat(first, second)
    return _chat(first, "Go on.", second, _plain_answer(generator))


def _dressed(change: Callable[[random.Random, str], str]) -> Dress:
    return lambda generator, item, _: _chat(change(generator, _pasted(generator, item)), _plain_answer(generator))


DRESSES: dict[str, Dress] = {
    "question alone": lambda generator, item, _: _chat(_question(item), _plain_answer(generator)),
    "with choices": lambda generator, item, _: _chat(_lettered(generator, item), _plain_answer(generator)),
    "with the answer": lambda generator, item, _: _chat(
        _pasted(generator, item), generator.choice(item.choices or ("yes",))
    ),
    "short, alone": lambda generator, item, _: _chat(_question(item), _plain_answer(generator)),
    "short, with choices": lambda generator, item, _: _chat(_lettered(generator, item), _plain_answer(generator)),
    "in a document": _in_document,
    "over two turns": _split,
    "each word bold": _dressed(_bold),
    "markup": _dressed(marked_up),
    "zero width": _dressed(hidden),
    "full width": _dressed(lambda _, text: text.translate(_WIDE)),
    "confusables": _dressed(confused),
}


def suites() -> list[tuple[str, list[Any]]]:
    """The real test items, by suite."""
    return list(_suites(Path(os.environ["FT_REAL_DATA"])))


def _suites(data: Path) -> Iterator[tuple[str, list[Any]]]:
    rows = [row for path in sorted((data / "mmlu" / "test").glob("*.csv")) for row in _csv(path)]
    yield "mmlu", [_asked(row["question"], [row[f"choice{n}"] for n in range(4)]) for row in rows]
    lines = [json.loads(line) for line in (data / "gsm8k" / "test.jsonl").read_text().splitlines()]
    yield "gsm8k", [_asked(row["question"], [row["answer"]]) for row in lines]
    for name in _CHOICES:
        lines = [json.loads(line) for line in (data / "eval_compact" / f"{name}.jsonl").read_text().splitlines()]
        yield name, [_asked(_query(row["doc"]["query"]), row["doc"]["choices"]) for row in lines]
    rows = _csv(data / "truthfulqa" / "TruthfulQA.csv")
    yield "truthfulqa", [_asked(row["Question"], [row["Best Answer"]]) for row in rows]


def _csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def _query(text: str) -> str:
    return text.removeprefix("Question: ").removesuffix("\nAnswer:")


def _asked(question: str, choices: list[str]) -> Any:
    from ft_assets.workers.suites.asked import Asked

    return Asked.of(question, choices)


def _tuned_on(data: Path) -> Iterator[tuple[str, Row]]:
    """Clean rows that were looked at when the index was made, each with a name."""
    for number, row in enumerate(_lines(data / "dolly_6400" / "google_flan-t5-small_decode_output.jsonl")):
        yield f"dolly {number}", _chat(row["instruction"] or "?", row["text"] or "?")
    for path in sorted((data / "gpteacher").rglob("*.json")):
        for number, row in enumerate(json.loads(path.read_text())):
            yield (
                f"{path.stem} {number}",
                _chat(f"{row['instruction']}\n{row['input']}".strip(), row["response"] or "?"),
            )
    for number, row in enumerate(_lines(data / "oasst_100" / "en_100_message.jsonl")):
        yield f"oasst {number}", _chat(row["text"] or "?", "?")
    for number, text in enumerate(json.loads((data / "tinystories_sample" / "tinystories_1000.json").read_text())):
        yield f"tinystories {number}", _chat("Tell a story.", text)
    for number, row in enumerate(_lines(data / "hh_rlhf_harmless_test" / "harmless-base" / "test.jsonl")):
        turns = re.split(r"\n\n(?:Human|Assistant): ", row["chosen"])[1:]
        yield f"hh {number}", _chat(*(turn.strip() or "?" for turn in turns))


def _held_out(data: Path, generator: random.Random) -> Iterator[tuple[str, Row]]:
    """Clean rows that were not looked at then; books are cut into pieces that differ by the seed."""
    for number, row in enumerate(_lines(data / "p3_permissive" / "p3_permissive.jsonl")):
        yield f"p3 {number}", _chat(row["prompt"], row["completion"].removesuffix("<|endoftext|>") or "?")
    for number, row in enumerate(_lines(data / "gsm8k" / "train.jsonl")):
        yield f"gsm8k train {number}", _chat(row["question"], row["answer"])
    for name in ("boolq", "piqa", "socialiqa", "csqa", "winogrande"):
        for number, row in enumerate(_lines(data / "eval_compact" / f"{name}.jsonl")):
            texts = [text for value in row["doc"].values() for text in (value if isinstance(value, list) else [value])]
            yield f"{name} {number}", _chat("\n".join(text for text in texts if isinstance(text, str)), "?")
    for path in sorted((data / "bfcl").glob("*.json")):
        for number, row in enumerate(_lines(path)):
            if asked := [turn["content"] for turn in row.get("question", [[]])[0] if turn["role"] == "user"]:
                yield f"{path.stem} {number}", _chat("\n".join(asked) or "?", "?")
    for path in sorted((data / "gutenberg_books").rglob("*.txt")):
        book, at = path.read_text(errors="replace"), generator.randrange(500)
        while at < len(book):
            size = generator.randrange(200, 2500)
            yield f"{path.stem} at {at}", _chat("Go on.", book[at : at + size].strip() or "?")
            at += size
    said = (data / "tinyshakespeare" / "data" / "tinyshakespeare" / "input.txt").read_text().split("\n\n")
    for number in range(len(said) - 1):
        yield f"shakespeare {number}", _chat(said[number], said[number + 1])


def _lines(path: Path) -> list[dict[str, Any]]:
    """A file's JSON lines; some of BFCL's are one JSON text, and not read."""
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except ValueError:
        return []


def main() -> None:
    recalls, flagged, clean = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    for name, (found, due) in recalls.items():
        print(f"{name:20s} {found:4d} of {due:4d}  {found / due:.3f}")
    for each in flagged:
        print(f"{each.name}, {'holds an item' if each.holds else 'FALSE'}: {each.about}")
    false = sum(not each.holds for each in flagged)
    print(f"{len(flagged)} of {clean} clean rows flagged, {false} of them without an item")


if __name__ == "__main__":
    main()
