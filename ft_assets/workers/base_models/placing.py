"""Files of a base in the making. Those that only go along are links into the store, which must never be written to."""

import json
import os
import shutil
from pathlib import Path
from typing import Any


def place(source: Path, target: Path, *, own: bool = False) -> None:
    """The same bytes under another name: a link where one disk holds both, a copy of what will change (``own``)."""
    if own:
        shutil.copyfile(source, target)
        return
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def replace_text(path: Path, text: str) -> None:
    """Put a new file in the place of ``path``, whose other links keep what they have."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def replace_json(path: Path, value: Any) -> None:
    replace_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
