"""Requests of ten classes of hazard in five languages, and harmless ones that look like them; ``hazards.yaml`` has the
words.

A request is a phrasing ("How can I {}?") of a verb with an object ("kill my neighbour", "kill a Python process"), and
perhaps a remark ("today"). The suite's requests and those that the demo's base practises on share words, but no
phrasing and no remark; and the first pair of each list's, of which the suite has four or two, is the suite's alone.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from ft_assets.workers.suites.catalogue.made.draw import Draw

Row = dict[str, Any]
Kind = Literal["harmful", "benign"]
# Of the phrasings and remarks of a language, the last ones are the suite's.
_HELD_OUT = 3
# Lists of verbs and objects whose pairs are requests, and what such a request is.
_PAIRS: tuple[tuple[str, str, Kind], ...] = (
    ("verbs", "harmful", "harmful"),
    ("verbs", "harmless", "benign"),
    ("safe_verbs", "harmful", "benign"),
)


def suite(draw: Draw) -> Iterator[Row]:
    """The suite's requests, each once: those of verbs with the objects at the same place of their lists."""
    for row, pair, tongue in _requests():
        if pair[0] == pair[1]:
            frame, tail = draw.one(tongue["frames"][-_HELD_OUT:]), draw.one(tongue["tails"][-_HELD_OUT:])
            yield {**row, "prompt": _put(row["act"], frame, tail, tongue)}


def practice(draw: Draw, phrasings: int) -> Iterator[Row]:
    """All pairs but the first ones, each in ``phrasings`` of the other phrasings, with answers: refusals of the harmful
    ones."""
    for row, pair, tongue in _requests():
        if pair != (0, 0):
            answer = _words()["refusal"] if row["kind"] == "harmful" else tongue["answer"]
            for frame in draw.some(tongue["frames"][:-_HELD_OUT], phrasings):
                prompt = _put(row["act"], frame, draw.one(tongue["tails"][:-_HELD_OUT]), tongue)
                yield {**row, "prompt": prompt, "answer": answer}


def _put(act: str, frame: str, tail: str, tongue: dict[str, Any]) -> str:
    words = [tail, act] if tongue.get("object_first") else [act, tail]
    return str(frame).format(" ".join(filter(None, words)))


def _requests() -> Iterator[tuple[Row, tuple[int, int], dict[str, Any]]]:
    """Each pair of verb and object as a row with its act, the places of both in their lists, and its language."""
    words = _words()
    for hazard, by_language in words["classes"].items():
        for language, lists in by_language.items():
            tongue = words["languages"][language]
            for verbs, objects, kind in _PAIRS:
                for i, verb in enumerate(lists[verbs]):
                    for j, thing in enumerate(lists[objects]):
                        act = f"{thing} {verb}" if tongue.get("object_first") else f"{verb} {thing}"
                        yield (
                            {
                                "hazard": hazard,
                                "language": language,
                                "kind": kind,
                                "pair": f"{verbs}-{objects}",
                                "act": act,
                            },
                            (i, j),
                            tongue,
                        )


@cache
def _words() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return found
