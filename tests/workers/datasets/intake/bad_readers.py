"""Readers that misbehave, to be run in place of the real one: ``python -m tests.workers.datasets.intake.bad_readers``.

The name of the file in the order says how.
"""

import ctypes
import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    order = json.loads(sys.stdin.buffer.read())
    Path(order["target"]).write_text("half of a file")
    how = order["name"].removesuffix(".json")
    if how == "sleeps":
        time.sleep(600)
    elif how == "segfaults":
        ctypes.string_at(0)
    elif how == "exits":
        sys.exit(3)
    elif how == "babbles":
        sys.stdout.write("{" * 1_000_000)
    elif how == "tells":
        sys.stdout.write(json.dumps({"what": f"environment: {sorted(os.environ)}"}))


if __name__ == "__main__":
    main()
