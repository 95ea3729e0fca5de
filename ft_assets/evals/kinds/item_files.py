"""The file of items that a kind's task names, row by row."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ft_assets.evals.suite_rows import read_rows
from ft_resources.errors import BadRecipe

MOST_CHARACTERS = 65_536
_ENDINGS = (".jsonl", ".json", ".csv", ".parquet")


def item_rows(
    name: str, files: Mapping[str, Path], where: str, id_column: str | None
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Id, place and columns of each row of file ``name``; rows are numbered from 1 where ``id_column`` is None.

    Raises BadRecipe for a file that is missing, empty or unreadable, and for rows without an id of their own.
    """
    if name not in files or not name.endswith(_ENDINGS):
        raise BadRecipe(
            f"file: {name!r} is not a file of items in this folder",
            where=where,
            remedy=f"Name a {', '.join(_ENDINGS)} file that lies beside the task file.",
        )
    seen: set[str] = set()
    for number, (place, row) in enumerate(read_rows(files[name]), start=1):
        found = str(number) if id_column is None else row.get(id_column)
        if not isinstance(found, str | int) or not str(found) or str(found) in seen:
            remedy = "Give each item its own id, and name its column in id."
            raise BadRecipe("this item has no id of its own", where=place, remedy=remedy)
        seen.add(str(found))
        yield str(found), place, row
    if not seen:
        raise BadRecipe("there are no items", where=where, remedy=f"Add items to {name}.")


def text_of(row: Mapping[str, Any], column: str, where: str, *, empty: bool = False) -> str:
    """The text in a column. Raises BadRecipe for a missing one, an overlong one and, unless ``empty``, an empty one."""
    if column not in row:
        remedy = "Name the column in the task file, or add it."
        raise BadRecipe(f"there is no column {column!r}", where=where, remedy=remedy)
    text = row[column]
    if not isinstance(text, str) or not (empty or text.strip()):
        raise BadRecipe(f"{column} is empty or no text", where=where, remedy="Give every item one.")
    if len(text) > MOST_CHARACTERS:
        remedy = "Shorten it."
        raise BadRecipe(f"{column} is longer than {MOST_CHARACTERS:,} characters", where=where, remedy=remedy)
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise BadRecipe(f"{column} holds half of a surrogate pair", where=where, remedy="Correct its text.")
    return text
