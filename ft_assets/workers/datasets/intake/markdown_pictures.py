"""Pictures in Markdown: left out of the text and counted, as those of other documents are."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

# A picture in the text itself (a data URI) makes long lines, which are taken whole.
LONGEST_LINE = 64 << 20
_ALT = r"(?:[^\[\]\\]++|\\.|\[[^\[\]]*\])*+"
_TARGET = r"\((?:[^()\\]++|\\.|\([^()]*\))*+\)"
_PICTURE = rf"!\[{_ALT}\](?:{_TARGET}|\[[^\[\]]*\])?"
# Text between backticks is not a picture. A link around only a picture is removed with it.
_FOUND = re.compile(
    r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)"
    rf"|\[\s*(?P<linked>{_PICTURE})\s*\](?:{_TARGET}|\[[^\[\]]*\])"
    rf"|(?<!\\)(?P<picture>{_PICTURE})|(?P<tag><img\b[^<>]*>)",
    re.IGNORECASE,
)
_GONE = "\0"
_BLANKS = re.compile(f"(?: {_GONE})+ |{_GONE}")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_DEFINED = re.compile(r" {0,3}\[(?!\^)([^\[\]]+)\]:\s*<?(data:)?", re.IGNORECASE)
_LABELS = re.compile(rf"!\[({_ALT})\](?:\[([^\[\]]*)\])?$")


@dataclass(slots=True)
class Pictures:
    """The lines of a Markdown text without its pictures; ``count`` grows while they are read.

    ``lines`` reads the text's lines anew at each call: in ``![a kettle][1]`` and ``[1]: kettle.png``, where the address
    is apart, only the second line shows that the first is a picture.
    """

    lines: Callable[[], Iterable[str]]
    count: int = 0
    _labels: set[str] = field(default_factory=set)

    def without(self) -> Iterator[str]:
        """Each line; one that held pictures alone is left out, as is the data of a picture."""
        self._labels = {_label(found[1]) for line in self.lines() if (found := _DEFINED.match(line))}
        fence = ""
        for line in self.lines():
            found = _FENCE.match(line)
            if found and (not fence or line.strip().startswith(fence)):
                fence = "" if fence else found[1]
            elif not fence:
                if (defined := _DEFINED.match(line)) and defined[2]:
                    continue
                left = _BLANKS.sub(_one, _FOUND.sub(self._left, line)) if "![" in line or "<" in line else line
                if left.strip() or left == line:
                    yield left
                continue
            yield line

    def _left(self, found: re.Match[str]) -> str:
        """The text that replaces a match: nothing for a picture."""
        picture = found["linked"] or found["picture"]
        if picture is None and found["tag"] is None:
            return found[0]
        if picture and (labels := _LABELS.fullmatch(picture)) and _label(labels[2] or labels[1]) not in self._labels:
            return found[0]
        self.count += 1
        return _GONE


def _one(blanks: re.Match[str]) -> str:
    """One of the blanks around a picture."""
    return " " if len(blanks[0]) > 1 else ""


def _label(text: str) -> str:
    return " ".join(text.split()).casefold()
