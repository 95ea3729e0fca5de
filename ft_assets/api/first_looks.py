"""Preview of a file before the whole of it is uploaded."""

from ft_assets.api.files import check_filename
from ft_assets.control.registry.first_look import BadRow as BadRow
from ft_assets.control.registry.first_look import FirstLook as FirstLook
from ft_assets.control.registry.first_look import ShownRow as ShownRow
from ft_assets.control.registry.first_look import first_look


def look_at_head(filename: str, head: bytes, *, whole: bool) -> FirstLook:
    """What the rows in the first bytes of a file are, and which of them cannot be used; nothing is stored.

    ``whole`` says that these are all of its bytes. Raises BadData for a file that is refused whatever its rows are.
    """
    check_filename(filename)
    return first_look(filename, head, whole=whole)
