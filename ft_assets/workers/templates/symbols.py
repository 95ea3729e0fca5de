"""Text that stands for any text: tracks what a template does with a message's content, without knowing the content.

A ``Symbol`` is a concatenation of literals and of the contents of messages (``Atom``). It is not a ``str``: any access
to its characters raises ``NotProvable``. A question that can be repeated for any content (is it empty? does it contain
this?) is answered for the current content and recorded as a ``Condition``. A template that is rendered with symbols
therefore renders the same parts for all contents that meet the conditions.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

Trim = tuple[str, str | None]
"""``strip``, ``lstrip`` or ``rstrip``, and the characters: None means whitespace."""


class NotProvable(BaseException):
    """The template does something to a content that symbols cannot represent.

    Not an ``Exception``, because code that runs a template may catch those and continue differently.
    """


@dataclass(frozen=True, slots=True)
class Atom:
    """The content of message ``index`` after ``trims``."""

    index: int
    trims: tuple[Trim, ...] = ()

    def of(self, content: str) -> str:
        """The rendering's text for ``content``."""
        for name, characters in self.trims:
            content = getattr(content, name)(characters)
        return content

    def then(self, name: str, characters: str | None) -> "Atom":
        return Atom(self.index, (*self.trims, (name, characters)))


@dataclass(frozen=True, slots=True)
class Condition:
    """A question about an atom (a key of ``QUESTIONS``), its argument, and the answer given."""

    atom: Atom
    question: str
    argument: str
    answer: bool

    def test(self) -> Callable[[str], bool]:
        """Whether a content gives the same answer."""
        ask, argument, trims = QUESTIONS[self.question], self.argument, self.atom.of
        if not self.atom.trims:
            return (lambda text: ask(text, argument)) if self.answer else (lambda text: not ask(text, argument))
        return lambda text: ask(trims(text), argument) is self.answer


QUESTIONS: dict[str, Callable[[str, str], bool]] = {
    "filled": lambda text, _: bool(text),
    "blank": lambda text, _: not text or text.isspace(),
    "padded before": lambda text, _: text[:1].isspace(),
    "padded after": lambda text, _: text[-1:].isspace(),
    "contains": lambda text, what: what in text,
    "starts": lambda text, what: text.startswith(what),
    "ends": lambda text, what: text.endswith(what),
    "equals": lambda text, what: text == what,
}


@dataclass(slots=True)
class Witness:
    """Answers questions for the current contents, by index of their message, and records them."""

    contents: dict[int, str]
    conditions: dict[Condition, None] = field(default_factory=dict)

    def ask(self, atom: Atom, question: str, argument: str = "") -> bool:
        answer = QUESTIONS[question](atom.of(self.contents[atom.index]), argument)
        self.conditions[Condition(atom, question, argument, answer)] = None
        return answer


Part = str | Atom


class Symbol:  # noqa: PLW1641 -- hashing is refused below
    """A concatenation of parts, at least one of them an atom; ``joined`` makes them.

    The sandbox also treats the fields as private: to a template, a symbol has only a text's attributes.
    """

    __slots__ = ("_parts", "_witness")

    def __init__(self, parts: tuple[Part, ...], witness: Witness) -> None:
        self._parts, self._witness = parts, witness

    def __add__(self, other: Any) -> Any:
        return self._joined(self, other) if isinstance(other, str | Symbol) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return self._joined(other, self) if isinstance(other, str) else NotImplemented

    def __bool__(self) -> bool:
        if any(isinstance(part, str) for part in self._parts):
            return True
        return any(self._witness.ask(atom, "filled") for atom in self._atoms())

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if isinstance(other, str):
            return self._witness.ask(self._only(), "equals", other)
        return False if not isinstance(other, Symbol) else _refuse()

    def __contains__(self, what: object) -> bool:
        if not isinstance(what, str):
            _refuse()
        if any(what in part for part in self._parts if isinstance(part, str)):
            return True
        if any(self._witness.ask(atom, "contains", what) for atom in self._atoms()):
            return True
        # A longer one could still span several parts.
        return False if len(self._parts) == 1 or len(what) == 1 else _refuse()

    def startswith(self, what: Any) -> bool:
        return self._touches(what, "starts", self._parts[0])

    def endswith(self, what: Any) -> bool:
        return self._touches(what, "ends", self._parts[-1])

    def strip(self, characters: Any = None) -> Any:
        if len(self._parts) == 1:
            return Symbol((self._only().then("strip", _constant(characters)),), self._witness)
        left = self.lstrip(characters)
        return left.rstrip(characters)

    def lstrip(self, characters: Any = None) -> Any:
        return self._trimmed("lstrip", characters)

    def rstrip(self, characters: Any = None) -> Any:
        return self._trimmed("rstrip", characters)

    def split(self, separator: Any = None, maxsplit: int = -1) -> list["Symbol"]:
        return [self] if isinstance(separator, str) and separator not in self else _refuse()

    def replace(self, old: Any, new: Any, count: int = -1) -> "Symbol":
        return self if isinstance(old, str) and old and old not in self else _refuse()

    def _trimmed(self, name: str, characters: Any) -> Any:
        characters = _constant(characters)
        parts = list(self._parts)
        edge = 0 if name == "lstrip" else -1
        while parts:
            part = parts[edge]
            if isinstance(part, str):
                parts[edge] = left = getattr(part, name)(characters)
                filled = bool(left)
            else:
                parts[edge] = atom = part.then(name, characters)
                filled = len(parts) == 1 or self._witness.ask(atom, "filled")
            if filled:
                break
            del parts[edge]
        return joined(parts, self._witness)

    def _touches(self, what: Any, question: str, part: Part) -> bool:
        if not isinstance(what, str):
            _refuse()
        if isinstance(part, str):
            touches = part.startswith(what) if question == "starts" else part.endswith(what)
            # A shorter literal implies "no" only if it already differs; for simplicity, that is not used.
            return touches if touches or len(part) >= len(what) else _refuse()
        touches = self._witness.ask(part, question, what)
        return touches if touches or len(self._parts) == 1 else _refuse()

    def _joined(self, *pieces: "str | Symbol") -> Any:
        parts: list[Part] = []
        for piece in pieces:
            parts += piece._parts if isinstance(piece, Symbol) else [piece]
        return joined(parts, self._witness)

    def _atoms(self) -> Iterator[Atom]:
        return (part for part in self._parts if isinstance(part, Atom))

    def _only(self) -> Atom:
        part = self._parts[0]
        return part if len(self._parts) == 1 and isinstance(part, Atom) else _refuse()


def parts_of(value: "str | Symbol") -> tuple[Part, ...]:
    return value._parts if isinstance(value, Symbol) else (value,)


def concatenation(values: Iterable[Any]) -> "str | Symbol":
    """``"".join(map(str, values))`` that preserves symbols."""
    parts: list[Part] = []
    witness = None
    for value in values:
        if isinstance(value, Symbol):
            parts += value._parts
            witness = value._witness
        else:
            parts.append(str(value))
    return joined(parts, witness) if witness is not None else "".join(map(str, parts))


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise NotProvable


# All other operations of Python or a filter on a text.
for _name in (
    *("__str__", "__repr__", "__format__", "__hash__", "__iter__", "__len__", "__getitem__", "__reversed__"),
    *("__lt__", "__le__", "__gt__", "__ge__", "__mul__", "__rmul__", "__mod__", "__rmod__"),
    *("__int__", "__float__", "__index__", "__complex__"),
):
    setattr(Symbol, _name, _refuse)


def joined(parts: Iterable[Part], witness: Witness) -> "str | Symbol":
    """The concatenated parts, with neighbouring literals merged: plain text if there is no atom."""
    merged: list[Part] = []
    for part in parts:
        if isinstance(part, str):
            if merged and isinstance(merged[-1], str):
                merged[-1] += part
            elif part:
                merged.append(part)
        else:
            merged.append(part)
    if any(isinstance(part, Atom) for part in merged):
        return Symbol(tuple(merged), witness)
    return "".join(part for part in merged if isinstance(part, str))


def _constant(characters: Any) -> str | None:
    """Characters that may be trimmed off a content without loss: white space."""
    return characters if characters is None or (isinstance(characters, str) and characters.isspace()) else _refuse()
