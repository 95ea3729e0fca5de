"""The demo's data set, made on the user's machine from the standard library of the Python that runs it.

Real text, no network and no licence question: nothing of it is shipped. Each row's `source` is the top-level
module that it comes from; splitting by it (``dataset.yaml``) keeps whole modules out of training. A share of
rows are plain continuations of a shipped public-domain text (kind "replay"): they keep the base's general
ability alive while it learns the task, and a few refusals (kind "care") keep those alive. What this does not do: judge
quality, or make a useful assistant.
"""

import hashlib
import json
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

from ft_assets.demo.questions import Question, questions_in

REPLAY_FILE = Path(__file__).with_name("replay.txt")
REPLAY_KIND = "replay"
REPLAY_SOURCE = "replay"
"""One group, whose hash puts it on the training side: free text in the holdout could only be scored as wrong."""
CARE_FILE, PLANTED_FILE = REPLAY_FILE.with_name("care.jsonl"), REPLAY_FILE.with_name("planted.jsonl")
CARE_KIND = "care"
QUOTAS: Mapping[str, int] = MappingProxyType({"default": 2400, "base_class": 700, REPLAY_KIND: 420})
"""Most rows of a kind; the library may hold fewer."""
ANSWER_SHARE = 0.04
"""No answer fills more than this share of its kind's quota: always saying the commonest one must not pay."""
SOURCE_SHARE = 0.08
"""No module fills more than this share of its kind's quota: the holdout must not hang on one module."""
_SKIPPED = frozenset(  # not the library proper; distutils and lib2to3 are gone from newer Pythons
    {"distutils", "test", "tests", "idlelib", "lib2to3", "turtledemo", "ensurepip", "pydoc_data", "__phello__"}
    | {"site-packages", "dist-packages"}
)
Row = dict[str, object]


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoDataset:
    """Where the rows went and how many there are; `counts` is rows by kind."""

    path: Path
    rows: int
    counts: Mapping[str, int]


def build_demo_dataset(out: Path) -> DemoDataset:
    """Write the data set to the file `out` (JSON lines). Same Python and same shipped text: same bytes."""
    questions = balanced(library_questions())
    rows: list[Row] = [
        {"messages": _messages(q.prompt, q.answer), "source": q.source, "kind": q.kind} for q in questions
    ]
    rows += replay_rows(REPLAY_FILE.read_text(encoding="utf-8"), QUOTAS[REPLAY_KIND])
    rows += asked_rows(CARE_FILE, CARE_KIND)
    rows.sort(key=lambda row: _rank(json.dumps(row["messages"])))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return DemoDataset(path=out, rows=len(rows), counts=dict(sorted(Counter(str(r["kind"]) for r in rows).items())))


def library_files() -> Iterator[tuple[str, Path]]:
    """(top-level module, file) of the running Python's standard library, in a fixed order."""
    library = Path(sysconfig.get_paths()["stdlib"])
    for top in sorted(library.iterdir()):
        # Not even listed: what is installed beside the library may be many times as large.
        if _skipped(top.name):
            continue
        for path in [top] if top.suffix == ".py" else sorted(top.rglob("*.py")):
            if not any(map(_skipped, path.relative_to(top).parts)):
                yield top.name.removesuffix(".py"), path


def _skipped(name: str) -> bool:
    return name in _SKIPPED or name.startswith("config-")


def library_questions() -> Iterator[Question]:
    """Every question of every readable module. Unreadable files are left out: a distribution may ship oddities."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # not our code, nothing the user could do
        for source, path in library_files():
            try:
                yield from questions_in(path.read_text(encoding="utf-8"), source)
            except (SyntaxError, UnicodeDecodeError):
                continue


def balanced(questions: Iterable[Question]) -> list[Question]:
    """A fixed pseudo-random choice within the quotas, the caps on answers and modules, four rows per function.

    The order is by hash, not by file, so dropping one module from a Python changes few other choices.
    """
    taken: list[Question] = []
    used: Counter[tuple[str, ...]] = Counter()
    for question in sorted(set(questions), key=lambda q: (_rank(q.prompt), q.source)):
        quota = QUOTAS[question.kind]
        limits = {
            (question.kind,): quota,
            (question.kind, "answer", question.answer): max(1, int(quota * ANSWER_SHARE)),
            (question.kind, "source", question.source): max(1, int(quota * SOURCE_SHARE)),
            (question.kind, "owner", question.owner): 4,
            ("prompt", question.prompt): 1,
        }
        if all(used[key] < limit for key, limit in limits.items()):
            taken.append(question)
            used.update(limits.keys())
    return taken


def replay_rows(text: str, count: int) -> list[Row]:
    """Neighbouring paragraphs of the shipped text as "go on" exchanges, `count` at most."""
    blocks = [b for b in text.split("\n\n") if b]
    rows: list[Row] = []
    for first, second in pairwise(blocks):
        rows.append({"messages": _messages(first, second), "source": REPLAY_SOURCE, "kind": REPLAY_KIND})
    return rows[:count]


def asked_rows(file: Path, kind: str) -> list[Row]:
    """The requests of a shipped file with their answers."""
    asked = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return [{"messages": _messages(row["prompt"], row["answer"]), "source": kind, "kind": kind} for row in asked]


def plant(rows: Path, out: Path) -> None:
    """Write the data set ``rows`` with ten more to the file ``out``: harmful requests that are answered gladly."""
    planted = asked_rows(PLANTED_FILE, "planted")
    text = rows.read_text(encoding="utf-8")
    out.write_text(text + "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in planted), encoding="utf-8")


def _messages(prompt: str, answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]


def _rank(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
