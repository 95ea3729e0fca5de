"""Synthetic text that can only be predicted by copying: what teaches a tiny model to look things up.

Books alone leave a model of this size without induction ("A B … A" → "B"). Every document here is random
names and values, so nothing can be memorised and the only way to a low loss is to find the earlier occurrence.
No document is taken from any program: names are book words glued together, values are drawn at random.
"""

import random
from collections.abc import Callable, Sequence

Turns = list[tuple[str, str]]
"""(role, text) pairs; a document without chat structure is one turn of role "text"."""

_LINKS = (" = ", "=", ": ", " is ", " -> ", ", ")
_QUOTES = ("'{}'", '"{}"')


class Copies:
    """A seeded source of copy documents over a given vocabulary of plain words."""

    def __init__(self, words: Sequence[str], seed: int) -> None:
        self.words = words
        self.rng = random.Random(seed)
        self.makers: tuple[Callable[[], Turns], ...] = (
            self.table,
            self.table,
            self.call,
            self.call,
            self.call,
            self.listing,
            self.echo,
            self.kinship,
        )

    def document(self) -> Turns:
        """One document of a random kind."""
        return self.rng.choice(self.makers)()

    def name(self) -> str:
        """An identifier: snake_case, CamelCase, a lone word or a few letters."""
        rng, kind = self.rng, self.rng.random()
        if kind < 0.35:
            return rng.choice(self.words)
        if kind < 0.65:
            return "_".join(rng.choices(self.words, k=rng.choice((2, 2, 3))))
        if kind < 0.8:
            return "".join(w.capitalize() for w in rng.choices(self.words, k=rng.choice((1, 2, 2))))
        if kind < 0.87:
            return "_" + rng.choice(self.words)
        return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(1, 5)))

    def names(self, count: int) -> list[str]:
        """`count` different identifiers in a random order."""
        found: dict[str, None] = {}
        while len(found) < count:
            found[self.name()] = None
        return list(found)

    def value(self) -> str:
        """A literal: number, quoted word, word constant, dotted name, short list."""
        rng, kind = self.rng, self.rng.random()
        if kind < 0.3:
            return str(rng.choice((rng.randint(0, 9), rng.randint(10, 99), rng.randint(100, 99999))))
        if kind < 0.36:
            return f"{rng.randint(0, 99)}.{rng.randint(0, 99)}"
        if kind < 0.56:
            return rng.choice(_QUOTES).format(rng.choice((rng.choice(self.words), self.name(), "")))
        if kind < 0.68:
            return rng.choice(("None", "True", "False"))
        if kind < 0.8:
            return f"{self.name()}.{self.name()}"
        if kind < 0.86:
            return rng.choice(("()", "[]", "{}", "-1", f"({self.name()}, {self.name()})"))
        return self.name()

    def table(self) -> Turns:
        """Keys with values, then the same pairs in another order and perhaps with another separator."""
        rng = self.rng
        pairs = [(n, self.value()) for n in self.names(rng.randint(2, 10))]
        first, second = rng.choice(_LINKS), rng.choice(_LINKS)
        again = rng.sample(pairs, k=rng.randint(1, len(pairs)))
        given = rng.choice(("\n", ", ", "; ")).join(f"{k}{first}{v}" for k, v in pairs)
        return self._shape(given, "\n".join(f"{k}{second}{v}" for k, v in again))

    def call(self) -> Turns:
        """A call-like line with arguments, some with values, then single arguments restated."""
        rng = self.rng
        names = self.names(rng.randint(2, 8))
        plain = rng.randint(0, len(names) - 1)
        values = {n: self.value() for n in names[plain:]}
        typed = {n: f": {self.name()}" if rng.random() < 0.25 else "" for n in names}
        equals = rng.choice(("=", "=", " = "))
        inside = [n + typed[n] + (equals + values[n] if n in values else "") for n in names]
        head = f"{self.name()}({', '.join(inside)})"
        link = rng.choice(_LINKS)
        asked = rng.sample(names, k=rng.randint(1, len(names)))
        lines = [f"{n}{link}{values[n]}" if n in values else n for n in asked]
        return self._shape(head, "\n".join(lines))

    def listing(self) -> Turns:
        """Items in a row, then each with its number: position as a key."""
        rng = self.rng
        items = self.names(rng.randint(2, 9))
        row = rng.choice((f"({', '.join(items)})", f"[{', '.join(items)}]", " ".join(items)))
        numbered = [f"{i} {item}" for i, item in enumerate(items, start=1)]
        return self._shape(row, "\n".join(numbered))

    def echo(self) -> Turns:
        """Something quoted or indented comes back bare, so that a word and its spaced form become one."""
        rng = self.rng
        things = [self.name() if rng.random() < 0.7 else self.value() for _ in range(rng.randint(2, 8))]
        frame = rng.choice((" {}", "`{}`", "({})", "-{}-", "<{}>", ".{}"))
        return self._shape(" ".join(frame.format(t) for t in things), "\n".join(things))

    def kinship(self) -> Turns:
        """Nested names such as ``Outer(Inner)``, asked for from either side."""
        rng = self.rng
        pairs = [(self.name(), self.name()) for _ in range(rng.randint(2, 7))]
        given = "\n".join(f"{a}({b})" for a, b in pairs)
        picked = rng.sample(pairs, k=rng.randint(1, len(pairs)))
        lines = [f"{a} of {b}" if rng.random() < 0.5 else f"{b} in {a}" for a, b in picked]
        return self._shape(given, "\n".join(lines))

    def _shape(self, given: str, wanted: str) -> Turns:
        """Plain text mostly; a quarter as a chat in which the second part is the reply."""
        if self.rng.random() < 0.25:
            return [("user", given), ("assistant", wanted)]
        return [("text", f"{given}\n\n{wanted}\n")]
