"""Previews of a file's first rows and of how they are read: before its upload, and before a job uses it."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ft_assets.api.defaults import store_or_default
from ft_assets.api.files import check_filename, fetch_file, find_file, read_file
from ft_assets.control.registry.first_look import HEAD, Choose, first_look, look_at_beginning
from ft_assets.control.registry.first_look import BadRows as BadRows
from ft_assets.control.registry.first_look import FirstLook as FirstLook
from ft_assets.control.registry.first_look import ShownRow as ShownRow
from ft_assets.control.registry.heads import whole_rows
from ft_assets.control.registry.row_choices import IGNORE as IGNORE
from ft_assets.control.registry.row_choices import Choices as Choices
from ft_assets.settings.dataset.row_reading import policy_of as policy_of
from ft_assets.settings.dataset.row_reading import reading_of as reading_of
from ft_assets.workers.datasets.intake.kinds import kind_of
from ft_resources.store import Store

# A file that can be read only as a whole is fetched up to this size while somebody waits.
_FETCHED = 1 << 30


def look_at_head(filename: str, head: bytes, *, whole: bool) -> FirstLook:
    """What the rows in the first bytes of a file are, and which of them cannot be used; nothing is stored.

    ``whole`` says that these are all of its bytes. Raises BadData for a file that is refused whatever its rows are.
    """
    check_filename(filename)
    return look_at_beginning(filename, head, whole=whole)


def look_at_file(
    tenant: str,
    file_id: str,
    *,
    rows: Mapping[str, Any] | None = None,
    choose: Choose | None = None,
    store: Store | None = None,
) -> FirstLook:
    """A preview of an uploaded file's first rows, read by the mapping ``rows``; None: by a guessed one.

    ``choose`` changes how they are read. Raises NotFound, BadData for a file that has no rows, BadRecipe for ``rows``,
    and what ``choose`` raises.
    """
    store = store_or_default(store)
    found = find_file(tenant, file_id, store=store)
    policy = None if rows is None else policy_of(rows)
    with tempfile.TemporaryDirectory(prefix="ft-file-") as scratch:
        path, whole, kind = Path(scratch, "head"), found.bytes <= HEAD, kind_of(found.filename)
        # The end of an element of a JSON array is found by its reader faster.
        headless = whole or kind.format == "json"
        part = b"" if headless else whole_rows(_head(read_file(tenant, file_id, store=store)), kind)
        if part:
            path.write_bytes(part)
        elif found.bytes <= _FETCHED:
            path, whole = fetch_file(tenant, file_id, Path(scratch, "whole"), store=store), True
        else:
            return FirstLook(later="A file of this kind and size is checked when the job starts.")
        return first_look(path, found.filename, whole=whole, policy=policy, choose=choose)


def _head(chunks: Iterator[bytes]) -> bytes:
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= HEAD:
            break
    return head[:HEAD]
