"""``python -m benchmarks NAME``: a readable table, and one JSON object of the raw figures as the last line."""

import json
import sys
from importlib import import_module

from benchmarks.table import Figure, print_table

NAMES = ("demo", "datasets", "packs")


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in NAMES:
        sys.exit(f"usage: python -m benchmarks {{{'|'.join(NAMES)}}}")
    figures: list[Figure] = import_module(f"benchmarks.{sys.argv[1]}").measure()
    print_table(sys.argv[1], figures)
    print(json.dumps({figure.key: figure.ours for figure in figures}))


if __name__ == "__main__":
    main()
