"""Office files are ZIP archives of XML: hostile ones are refused before a library reads them."""

import re
import zipfile
from pathlib import Path

from ft_assets.workers.datasets.intake.file_refusals import damaged, require_unpacked_size
from ft_assets.workers.datasets.intake.streams import Source
from ft_resources.errors import BadData

_MEMBERS = 10_000
_HEAD = 1 << 16
# Office writes neither; entities that contain each other unpack to any size.
_DECLARES = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)


def checked(source: Source, needs: str, word: str) -> Path:
    """The archive's path. Raises BadData unless it holds the member ``needs``, as ``word`` files do, and unpacks to a
    size that is allowed."""
    path = source.seekable()
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MEMBERS:
                raise damaged(source.name, word, f"it has {len(members):,} parts")
            unpacked = sum(member.file_size for member in members)
            require_unpacked_size(unpacked, source.name, path.stat().st_size, source.limits)
            if needs not in archive.namelist():
                raise BadData(
                    f"this is a ZIP file, not {word}",
                    where=source.name,
                    remedy="Unpack it and add its files, or let its name end in its format.",
                )
            for member in members:
                if member.filename.endswith((".xml", ".rels")):
                    with archive.open(member) as part:
                        if _DECLARES.search(part.read(_HEAD)):
                            raise damaged(source.name, word, "it declares XML entities")
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError):
        raise damaged(source.name, word, "its archive cannot be read") from None
    return path
