"""Why a file is refused, in the words that parent and reader process share."""

from ft_resources.errors import BadData


def too_much_memory(name: str, allowed: int) -> BadData:
    return BadData(
        f"reading the file takes more than the {allowed / (1 << 20):,.0f} MiB of memory that are allowed",
        where=name,
        remedy="It may be damaged or unpack to far more than it holds; save the data as JSON lines instead.",
    )


def too_slow(name: str, seconds: float) -> BadData:
    return BadData(
        f"reading the file takes longer than the {seconds:,.0f} s that are allowed for its size",
        where=name,
        remedy="It may be damaged; save it again, or save the data as JSON lines instead.",
    )


def too_large(name: str, allowed: int) -> BadData:
    return BadData(
        f"the file unpacks to more than {allowed / (1 << 20):,.0f} MiB, the most that is allowed",
        where=name,
        remedy="Split the data into several files.",
    )


def bomb(name: str, ratio: int) -> BadData:
    return BadData(
        f"the file unpacks to more than {ratio} times its size, as only files made to do harm do",
        where=name,
        remedy="Add the data as it is, not compressed.",
    )


def damaged(name: str, format_name: str, how: str) -> BadData:
    """``how`` is our own sentence: what parsers say may quote the file."""
    return BadData(
        f"the {format_name} file is damaged: {how}",
        where=name,
        remedy="Save or transfer it again, whole, and check that it opens where it came from.",
    )


def crashed(name: str, ending: str) -> BadData:
    return BadData(
        f"the file makes its reader crash ({ending})",
        where=name,
        remedy="It is probably damaged: save it again, or save the data in another format.",
    )
