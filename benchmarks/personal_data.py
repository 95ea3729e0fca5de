"""Precision and recall of the personal data recognisers on labelled sentences, and their speed.

The sentences (Microsoft's presidio-research, synthetic) are divided by the hash of their text: recognisers were tuned
on one half, and what is printed comes from the other. It says less than it seems to: both halves are made from the
same templates, so words such as "call me at" before a phone number were seen in tuning; the labelled values of both
were looked through, without their sentences, before the first rule was written; and all labelled cards and IBANs have
right check digits. A finding is right where it and a labelled value of the same type share at least half of the
characters that both cover; every other finding of the type is wrong, whatever it is.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.table import Figure, goal_figure
from ft_assets.settings.dataset.policy import PersonalDataSettings

LABELS = {
    "CREDIT_CARD": "card",
    "IBAN_CODE": "iban",
    "EMAIL_ADDRESS": "email",
    "IP_ADDRESS": "ip",
    "PHONE_NUMBER": "phone",
}
STRUCTURED = ("card", "iban", "email", "ip")
_CHARACTERS = 500
_TEXTS = 40_000
_MATCHER_TEXTS = 2_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """``labelled`` values and ``found`` ones, and how many of each agree with one of the others."""

    labelled: int = 0
    found: int = 0
    recalled: int = 0
    right: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            labelled=self.labelled + other.labelled,
            found=self.found + other.found,
            recalled=self.recalled + other.recalled,
            right=self.right + other.right,
        )

    @property
    def precision(self) -> float | None:
        return self.right / self.found if self.found else None

    @property
    def recall(self) -> float | None:
        return self.recalled / self.labelled if self.labelled else None


def measure() -> dict[str, float | None]:
    """All figures by key; None for what cannot be measured without ``FT_REAL_DATA``.

    ``pii_precision`` and ``pii_recall`` are those of the structured types together (card, IBAN, e-mail, IP), on the
    held-out half; each type also has its own, with ``_n``, the number of labelled values.
    """
    folder = os.environ.get("FT_REAL_DATA")
    measured: dict[str, float | None] = {"pii_precision": None, "pii_recall": None}
    if folder:
        counts = score(Path(folder), held_out=True)
        structured = sum((counts[name] for name in STRUCTURED), Counts())
        measured = {"pii_precision": structured.precision, "pii_recall": structured.recall}
        for name, count in counts.items():
            measured |= {f"pii_{name}_precision": count.precision, f"pii_{name}_recall": count.recall}
            measured[f"pii_{name}_n"] = count.labelled
        measured |= _speed(_ordinary_texts(Path(folder)))
    else:
        print("FT_REAL_DATA is not set: precision, recall and speed of the personal data recognisers are not measured.")
        measured |= {"pii_phone_precision": None, "pii_phone_recall": None}
        measured |= {"pii_texts_s": None, "pii_matcher_texts_s": None}
    return measured


def figures(measured: dict[str, float | None]) -> list[Figure]:
    """The rows of the table for what ``measure`` gave."""
    rows = [
        _figure(measured, "pii_precision", "personal data, structured types: precision", 0.99),
        _figure(measured, "pii_recall", "personal data, structured types: recall", 0.93),
    ]
    for name in STRUCTURED:
        for what in ("precision", "recall"):
            rows.append(_figure(measured, f"pii_{name}_{what}", f"  {name}{_n(measured, name)}: {what}", None))
    rows.append(_figure(measured, "pii_phone_precision", f"phone numbers{_n(measured, 'phone')}: precision", 0.94))
    rows.append(_figure(measured, "pii_phone_recall", "phone numbers: recall", None))
    speed, matcher = measured["pii_texts_s"], measured["pii_matcher_texts_s"]
    return [
        *rows,
        Figure(
            key="pii_texts_s",
            what=f"screening of {_CHARACTERS}-character texts, one core, texts/s",
            ours=speed,
            peer=matcher,
            peer_is="PhoneNumberMatcher alone",
            goal=">= 333,000",
            met=None if speed is None else speed >= 333_000,
        ),
    ]


def score(folder: Path, *, held_out: bool) -> dict[str, Counts]:
    """Counts by type on one half of the sentences."""
    from ft_assets.workers.datasets.screening.personal import screen

    rows = [row for row in _sentences(folder) if _is_held_out(row["full_text"]) == held_out]
    findings = screen(pa.array([row["full_text"] for row in rows], pa.string()), PersonalDataSettings()).findings
    found: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for finding in findings.to_pylist():
        found.setdefault((finding["index"], finding["type"]), []).append((finding["start"], finding["end"]))
    counts = dict.fromkeys(LABELS.values(), Counts())
    for index, row in enumerate(rows):
        for label, name in LABELS.items():
            spans = [(s["start_position"], s["end_position"]) for s in row["spans"] if s["entity_type"] == label]
            counts[name] += _compare(spans, found.get((index, name), []))
    return counts


def _compare(labelled: list[tuple[int, int]], found: list[tuple[int, int]]) -> Counts:
    return Counts(
        labelled=len(labelled),
        found=len(found),
        recalled=sum(any(_agree(one, other) for other in found) for one in labelled),
        right=sum(any(_agree(one, other) for other in labelled) for one in found),
    )


def _agree(one: tuple[int, int], other: tuple[int, int]) -> bool:
    shared = min(one[1], other[1]) - max(one[0], other[0])
    return shared * 2 >= max(one[1], other[1]) - min(one[0], other[0])


def _sentences(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((folder / "presidio_pii/data/synth_dataset_v2.json").read_text("utf-8"))
    return rows


def _is_held_out(text: str) -> bool:
    return hashlib.sha256(text.encode()).digest()[0] % 2 == 1


def _ordinary_texts(folder: Path) -> list[str]:
    """Books and instructions of the shared data in pieces of 500 characters, repeated to ``_TEXTS``."""
    pieces = []
    for path in [*sorted(folder.glob("gutenberg_books/**/*.txt"))[:6], *_instruction_files(folder)]:
        text = path.read_text("utf-8", errors="replace")[:2_000_000]
        pieces += [text[at : at + _CHARACTERS] for at in range(0, len(text) - _CHARACTERS, _CHARACTERS)]
    return (pieces * (_TEXTS // len(pieces) + 1))[:_TEXTS]


def _instruction_files(folder: Path) -> Iterable[Path]:
    for name in ("dolly_6400", "p3_permissive", "gpteacher"):
        yield from sorted((folder / name).rglob("*.json*"))[:4]


def _speed(texts: list[str]) -> dict[str, float | None]:
    """Texts a second: the best of five, as only interruptions make a run slower; the peer in between."""
    import phonenumbers

    from ft_assets.workers.datasets.screening.personal import screen

    array = pa.array(texts, pa.string())
    settings = PersonalDataSettings()
    screen(array[:100], settings)
    ours, matcher = [], []
    for _ in range(5):
        start = time.perf_counter()
        screen(array, settings)
        ours.append(time.perf_counter() - start)
        start = time.perf_counter()
        for text in texts[:: _TEXTS // _MATCHER_TEXTS]:
            for _match in phonenumbers.PhoneNumberMatcher(text, "US"):
                pass
        matcher.append(time.perf_counter() - start)
    return {"pii_texts_s": len(texts) / min(ours), "pii_matcher_texts_s": _MATCHER_TEXTS / min(matcher)}


def _figure(measured: dict[str, float | None], key: str, what: str, goal: float | None) -> Figure:
    return goal_figure(key, what, measured.get(key), goal)


def _n(measured: dict[str, float | None], name: str) -> str:
    count = measured.get(f"pii_{name}_n")
    return "" if count is None else f" (n={count:.0f})"
