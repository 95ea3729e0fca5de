"""Examples in error messages: by their rows in the upload and their ids, never by their text."""

from collections.abc import Iterable

from ft_assets.packs.format import Pack

_NAMED = 20


def name_examples(pack: Pack, indices: Iterable[int]) -> str:
    """``row 12 (3fa9…), row 7 (…) and 30 more``, from indices of examples; the id is the dataset's."""
    distinct = list(dict.fromkeys(int(index) for index in indices))
    named = ", ".join(f"row {pack.example_row(index)} ({pack.example_id(index)})" for index in distinct[:_NAMED])
    return named if len(distinct) <= _NAMED else f"{named} and {len(distinct) - _NAMED} more"
