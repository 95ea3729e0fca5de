"""A folder in place of files: all files in and below it that can be read as rows."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ft_assets.settings.readable import READABLE
from ft_assets.workers.datasets.intake.kinds import CODECS, kind_of
from ft_resources.errors import BadData

NAMED = 3
"""Number of files that a sentence about more of them names."""
_ENDINGS = 8


def files_of(source: Path) -> tuple[list[Path], str]:
    """The files to read: ``source`` itself, or every readable file of the folder; and a warning that names the files
    left out, or "".

    Hidden files and folders are passed over. Raises BadData for a folder without a file that can be read.
    """
    if not source.is_dir():
        return [source], ""
    found: list[Path] = []
    others: list[Path] = []
    for path in sorted(source.rglob("*")):
        inside = path.relative_to(source)
        if path.is_dir() or any(part.startswith(".") for part in inside.parts):
            continue
        (found if _can_be_read(path) else others).append(path)
    if not found:
        raise BadData(
            "no file in this folder can be read",
            where=str(source),
            remedy=f"Put files of these kinds into it: {READABLE}.",
        )
    return found, _left_out(source, others)


def _can_be_read(path: Path) -> bool:
    try:
        kind_of(path.name)
    except BadData:
        return False
    return True


def _left_out(folder: Path, others: Sequence[Path]) -> str:
    if not others:
        return ""
    named = ", ".join(str(path.relative_to(folder)) for path in others[:NAMED])
    if len(others) <= NAMED:
        count = "1 file" if len(others) == 1 else f"{len(others)} files"
        return f"{folder}: left out {count} that cannot be read as rows: {named}"
    endings = Counter(_ending(path) for path in others).most_common()
    counted = ", ".join(f"{count:,} {ending}" for ending, count in endings[:_ENDINGS])
    counted += ", …" if len(endings) > _ENDINGS else ""
    return f"{folder}: left out {len(others):,} files that cannot be read as rows ({counted}): {named}, …"


def _ending(path: Path) -> str:
    """The ending of a file's name; a compressed file without a second ending does not show its format."""
    *before, last = ["", *path.suffixes]
    if last.lower() in CODECS:
        return f"{before[-1]}{last}" if before and before[-1] else f"{last} without another ending"
    return last or "without an ending"
