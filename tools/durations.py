"""``python -m tools.durations A B``: how the tests' durations of two runs (``build/durations.json``) differ."""

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Name, number of tests, seconds on the clock, processor seconds.
Row = tuple[str, int, float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Duration:
    """Of one test, its setup and teardown included; ``markers`` are its needs (``tests/needs.py``)."""

    seconds: float
    processor_s: float
    markers: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        return {
            "seconds": round(self.seconds, 3),
            "processor_s": round(self.processor_s, 3),
            "markers": list(self.markers),
        }


def read(file: Path) -> dict[str, Duration]:
    """A run's durations by test. Raises OSError or ValueError for a file that a run did not write."""
    found = json.loads(file.read_text(encoding="utf-8"))
    return {
        test: Duration(seconds=each["seconds"], processor_s=each["processor_s"], markers=tuple(each["markers"]))
        for test, each in found.items()
    }


def by_file(durations: Mapping[str, Duration]) -> list[Row]:
    """Sums of each file, the slowest first."""
    return _sums(durations, lambda test, _: [test.partition("::")[0]])


def by_marker(durations: Mapping[str, Duration]) -> list[Row]:
    """Sums of each marker, the slowest first; a test of two markers counts for both."""
    return _sums(durations, lambda _, each: each.markers or ["no marker"])


def compared(before: Mapping[str, Duration], after: Mapping[str, Duration], most: int = 20) -> list[str]:
    """Lines that say what became slower or faster: in all, and the files that differ most."""
    olds, news = ({name: row for name, *row in by_file(each)} for each in (before, after))
    none = [0, 0.0, 0.0]
    changes = [(name, olds.get(name, none), news.get(name, none)) for name in olds.keys() | news.keys()]
    changes.sort(key=lambda change: (-abs(change[2][1] - change[1][1]), change[0]))
    total = ("all", *([sum(row[part] for row in each.values()) for part in range(3)] for each in (olds, news)))
    return [
        f"{old[1]:8.1f} -> {new[1]:8.1f} s  {old[2]:8.1f} -> {new[2]:8.1f} s of processor"
        f"  {old[0]:5} -> {new[0]:5} tests  {name}"
        for name, old, new in (total, *changes[:most])
    ]


def _sums(durations: Mapping[str, Duration], names: Callable[[str, Duration], Iterable[str]]) -> list[Row]:
    sums: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for test, each in durations.items():
        for name in names(test, each):
            for part, more in enumerate((1, each.seconds, each.processor_s)):
                sums[name][part] += more
    rows = [(name, int(count), seconds, processor) for name, (count, seconds, processor) in sums.items()]
    return sorted(rows, key=lambda row: (-row[2], row[0]))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.durations")
    parser.add_argument("before", type=Path, help="durations.json of the run to compare with")
    parser.add_argument("after", type=Path, help="durations.json of the newer run")
    asked = parser.parse_args(arguments)
    print("\n".join(compared(read(asked.before), read(asked.after))))


if __name__ == "__main__":
    main()
