"""Files of a base that is being built. Unchanged files are links into the store and must never be written to."""

import json
import os
import shutil
from pathlib import Path
from typing import Any


def place(source: Path, target: Path, *, own: bool = False) -> None:
    """The same bytes under another name: a link if both are on one disk, a copy if the file will change (``own``)."""
    if own:
        shutil.copyfile(source, target)
        return
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def replace_text(path: Path, text: str) -> None:
    """Put a new file at ``path``; other links to the old file keep its content."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` with sorted keys. Raises ValueError for NaN."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def replace_json(path: Path, value: Any) -> None:
    replace_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
