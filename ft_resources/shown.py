"""Others' texts where a terminal shows them: rows, answers, names of files, logs, and errors that quote them."""

import re
from collections.abc import Iterable
from typing import Any, TextIO, cast

# C0, C1, what turns the direction of writing, other ends of lines, and halves of characters; tabs and line breaks stay.
COMMAND = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_COLOUR = re.compile(r"\x1b\[[\d;:]*m")


def shown(text: str) -> str:
    """``text`` in which nothing moves the cursor, changes the terminal or turns letters round: colours go, a carriage
    return begins a line, and every other command is shown as �."""
    if COMMAND.search(text) is None:
        return text
    return COMMAND.sub("\ufffd", _COLOUR.sub("", text).replace("\r\n", "\n").replace("\r", "\n"))


def escaped(json_text: str) -> str:
    """The same JSON, with what ``shown`` would change written as escapes."""
    return COMMAND.sub(lambda found: f"\\u{ord(found[0]):04x}", json_text)


class ShownStream:
    """A text stream for which everything written to it becomes ``shown``. It has no ``buffer``, which would go past it.

    ``rich_proxied_file`` is what rich writes to instead: there commands of its own are among the texts.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    @classmethod
    def over(cls, stream: TextIO) -> TextIO:
        """``stream`` behind this; itself if it is already."""
        return stream if isinstance(stream, cls) else cast(TextIO, cls(stream))

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(shown(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError("bytes would be written past what keeps commands from the terminal")
        return getattr(self.rich_proxied_file, name)
