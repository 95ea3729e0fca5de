"""Why a file is refused, in the wording shared by the parent and the reader process."""

import errno

from ft_assets.workers.datasets.intake.limits import ReadLimits
from ft_resources.errors import BadData

SAVE_AS_UTF8 = "Save the file as UTF-8 (in Excel: CSV UTF-8); it may be in an older encoding, in part or as a whole."


def too_much_memory(name: str, allowed: int) -> BadData:
    return BadData(
        f"reading the file takes more than the allowed {size_text(allowed)} of memory",
        where=name,
        remedy="It may be damaged or unpack to far more data; save it as JSON lines instead.",
    )


def too_slow(name: str, seconds: float) -> BadData:
    return BadData(
        f"reading the file takes longer than the {seconds:,.0f} s allowed for its size",
        where=name,
        remedy="It may be damaged; save it again, or save the data as JSON lines instead.",
    )


def too_large(name: str, allowed: int) -> BadData:
    return BadData(
        f"the file unpacks to more than the allowed {size_text(allowed)}",
        where=name,
        remedy="Split the data into several files.",
    )


def bomb(name: str, ratio: int) -> BadData:
    return BadData(
        f"the file unpacks to more than {ratio} times its size, as only malicious files do",
        where=name,
        remedy="Add the data uncompressed.",
    )


def require_unpacked_size(count: int, name: str, size: int, limits: ReadLimits) -> None:
    """Raise BadData if a file of ``size`` bytes may not unpack to ``count`` bytes."""
    if count > limits.out_bytes:
        raise too_large(name, limits.out_bytes)
    if count > limits.free_bytes + limits.ratio * size:
        raise bomb(name, limits.ratio)


def damaged(name: str, format_name: str, how: str) -> BadData:
    """``how`` must be our own sentence: a parser's message may quote the file."""
    return BadData(
        f"the {format_name} file is damaged: {how}",
        where=name,
        remedy="Save or transfer it again, whole, and check that it opens where it came from.",
    )


def crashed(name: str, ending: str, allowed: int) -> BadData:
    """``ending`` is a signal or a type of error. Some parsers end themselves when memory runs out."""
    return BadData(
        f"the file makes its reader crash, or take more than the {size_text(allowed)} of memory that are allowed "
        f"({ending})",
        where=name,
        remedy="It is probably damaged: save it again, or save the data in another format.",
    )


def refusal(error: Exception, name: str, limits: ReadLimits) -> BadData:
    """What ``error`` says of the file that it was raised for. The parser of a hostile file may raise anything, and the
    message could quote rows: only its type is told."""
    if isinstance(error, BadData):
        return error
    if isinstance(error, MemoryError):
        return too_much_memory(name, limits.memory_bytes)
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return too_large(name, limits.out_bytes)
    return crashed(name, type(error).__name__, limits.memory_bytes)


def size_text(count: int) -> str:
    """``count`` bytes for people: "16 MiB", "1,000 bytes"."""
    return f"{count >> 20:,} MiB" if count >= 1 << 20 else f"{count:,} bytes"
