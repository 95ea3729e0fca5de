"""``python -m benchmarks NAME``: a readable table, and one JSON object of the raw figures as the last line."""

import json
import sys
from importlib import import_module

from benchmarks.table import Figure, print_table

NAMES = (
    "demo",
    "datasets",
    "packs",
    "trainer",
    "gpu",
    "gates",
    "cluster",
    "house",
    "scale",
    "server",
    "parity",
    "canary",
    "quantized",
    "serving",
    "images",
)
_WITH_OPTIONS = ("gpu", "cluster", "house", "scale", "server", "serving", "images")


def main() -> None:
    name, options = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    if name not in NAMES or (options and name not in _WITH_OPTIONS):
        sys.exit(f"usage: python -m benchmarks {{{'|'.join(NAMES)}}}; {', '.join(_WITH_OPTIONS)} has options: --help")
    figures: list[Figure] = import_module(f"benchmarks.{name}").measure(*options)
    print_table(name, figures)
    print(json.dumps({figure.key: figure.ours for figure in figures}))


if __name__ == "__main__":
    main()
