"""Gates' verdicts as rows of a table: value, limit and interval of each thing that was judged."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ft_assets.api import Verdict

Numbers = Mapping[str, float]
_NAMES = {
    "task_gain": "Task gain",
    "regression": "General abilities",
    "incumbent": "Comparison with production",
    "safety": "Safety",
    "judge": "Judge",
    "scores": "Required scores",
}


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One thing that a gate judged; texts are "" where there is none."""

    what: str
    value: str = ""
    limit: str = ""
    interval: str = ""


@dataclass(frozen=True, kw_only=True)
class GateRow:
    """A gate, its verdict in a word and in words, and what it judged."""

    name: str
    outcome: str
    reason: str
    judged: tuple[Judged, ...]
    waived_by: str


def rows_of(verdicts: Sequence[Verdict]) -> list[GateRow]:
    """A row for each gate that was required, those that block first."""
    required = [each for each in verdicts if each.outcome != "not required"]
    return [
        GateRow(
            name=gate_name(each.gate),
            outcome=each.outcome,
            reason=_sentence(each.reason),
            judged=tuple(_judged(what, numbers) for what, numbers in each.numbers.items()) or (Judged(what=""),),
            waived_by=f"{each.waiver.actor}: {each.waiver.note}" if each.waiver else "",
        )
        for each in sorted(required, key=lambda each: each.lets_through)
    ]


def gate_name(gate: str) -> str:
    """What people call a gate."""
    return _NAMES.get(gate, gate.replace("_", " ").capitalize())


def _sentence(words: str) -> str:
    """``words`` with a capital, unless they begin with the key of a suite, which has none."""
    return words[:1].upper() + words[1:] if words.partition(" ")[0].isalpha() else words


def _judged(what: str, numbers: Numbers) -> Judged:
    if "drop_points" in numbers:
        return Judged(
            what=what,
            value=f"{_share(numbers['base'])} → {_share(numbers['candidate'])}",
            limit=f"a drop of at most {numbers['max_drop_points']:g} points",
            interval=_interval(numbers, "drop of {:.1f} to {:.1f} points"),
        )
    if "min_relative" in numbers:
        return Judged(
            what=what,
            value=f"{numbers['base']:.3g} → {numbers['candidate']:.3g}",
            limit=f"a gain of at least {_share(numbers['min_relative'])}",
            interval=_interval(numbers, "gain of {:.3g} to {:.3g}"),
        )
    for value, limit, shown in _ONE_VALUE:
        if value in numbers and limit in numbers:
            low, high = shown(numbers["interval_low"]), shown(numbers["interval_high"])
            return Judged(
                what=what, value=shown(numbers[value]), limit=shown(numbers[limit]), interval=f"{low} to {high}"
            )
    return Judged(what=what)


def _share(value: float) -> str:
    return f"{value:.1%}".replace("%", " %")


def _plain(value: float) -> str:
    return f"{value:.4g}"


_ONE_VALUE: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("rate", "limit", _share),
    ("win_rate", "min_win_rate", _share),
    ("candidate", "better_than", _plain),
)


def _interval(numbers: Numbers, words: str) -> str:
    return words.format(numbers["interval_low"], numbers["interval_high"])
