"""Checks that look at every token: each counts the documents that are wrong and names the first."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ft_assets.packs.doctor.chunks import Chunk
from ft_assets.packs.encoding.tokenizer import ChatTokenizer
from ft_assets.packs.format import Spool


def spooled(spool: Spool, chunk: Chunk) -> NDArray[np.int64]:
    """Where the chunk's documents are in the spool that they came from, int64 [documents]."""
    return spool.first_documents[chunk.examples] + chunk.pieces


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What must hold.

    Args:
        form: chat, text or preference.
        ends: ids of which a learned turn, or a text, must end with one.
        vocabulary: rows of the model's embedding.
        max_length: tokens that a window may have.
        truncates: whether the recipe lets texts be shortened.
    """

    tokenizer: ChatTokenizer
    form: str
    ends: frozenset[int]
    vocabulary: int
    max_length: int
    truncates: bool

    def control(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the ids are control tokens."""
        return np.isin(ids, list(self.tokenizer.control_ids))


class TokenCheck(ABC):
    """Sees a split chunk by chunk."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._bad = 0
        self._first = ""

    @abstractmethod
    def look(self, chunk: Chunk, spool: Spool) -> None:
        """Look at a chunk, and ``blame`` what is wrong."""

    @abstractmethod
    def words(self, count: int, first: str) -> str:
        """What is wrong, in a sentence."""

    @property
    def problem(self) -> str | None:
        """What is wrong, or None."""
        return self.words(self._bad, self._first) if self._bad else None

    def blame(self, chunk: Chunk, documents: NDArray[np.bool_]) -> None:
        """Flagged documents (bool [documents]) are wrong."""
        bad = np.flatnonzero(documents)
        if len(bad) and not self._first:
            self._first = chunk.name(int(bad[0]))
        self._bad += len(bad)


class Learned(TokenCheck):
    """Every document has a token that is learned."""

    def look(self, chunk: Chunk, spool: Spool) -> None:
        self.blame(chunk, chunk.count(chunk.learned) == 0)

    def words(self, count: int, first: str) -> str:
        return f"{count} examples have no learned tokens, first {first}"


class Apart(TokenCheck):
    """What is predicted is a document's own next token, and positions start again with each document."""

    def look(self, chunk: Chunk, spool: Spool) -> None:
        wrong = chunk.learned & (chunk.targets != chunk.ids)
        wrong |= chunk.positions != np.arange(len(chunk.ids)) - np.repeat(chunk.boundaries[:-1], chunk.lengths)
        starts = np.zeros(len(chunk.ids), bool)
        starts[chunk.boundaries[:-1]] = True
        # Before a first token lies another document.
        wrong |= starts & chunk.learned
        self.blame(chunk, chunk.count(wrong) > 0)

    def words(self, count: int, first: str) -> str:
        return f"{count} examples are predicted from another document or at wrong positions, first {first}"


class Ends(TokenCheck):
    """Every learned turn ends with a token that ends turns by the template; of a text, its last piece with its end."""

    def __init__(self, rules: Rules) -> None:
        super().__init__(rules)
        self._ends = np.array(sorted(rules.ends), np.int64)
        self._blank: dict[int, bool] = {}

    def look(self, chunk: Chunk, spool: Spool) -> None:
        learned = chunk.learned
        goes_on = np.append(learned[1:], False)
        goes_on[chunk.boundaries[1:] - 1] = False
        last = np.flatnonzero(learned & ~goes_on)
        if self.rules.form == "text":
            numbers = spooled(spool, chunk)
            # The next one in the spool begins another row.
            closing = np.append(np.asarray(spool.pieces), 0)[numbers + 1] == 0
            last = last[closing[np.searchsorted(chunk.boundaries[1:], last, side="right")]]
        # Templates may mark the line break behind the end-of-turn token, too.
        for _ in range(8):
            blank = self._blanks(chunk.ids[last]) & learned[last - 1]
            if not blank.any():
                break
            last = last - blank
        bad = last[~np.isin(chunk.ids[last], self._ends)]
        documents = np.zeros(len(chunk.lengths), bool)
        documents[np.searchsorted(chunk.boundaries[1:], bad, side="right")] = True
        self.blame(chunk, documents)

    def words(self, count: int, first: str) -> str:
        names = [repr(self.rules.tokenizer.tokenizer.id_to_token(token)) for token in self._ends.tolist()]
        wanted = " or ".join(names) or "an end-of-turn token, of which the template has none"
        what = "do not end" if self.rules.form == "text" else "have learned turns that do not end"
        return f"{count} examples {what} with {wanted}, first {first}"

    def _blanks(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the ids are white space, bool [ids]."""
        different, places = np.unique(ids, return_inverse=True)
        for token in different.tolist():
            if token not in self._blank:
                text = self.rules.tokenizer.tokenizer.decode([token])
                self._blank[token] = not text.strip() and token not in self.rules.tokenizer.control_ids
        return np.array([self._blank[token] for token in different.tolist()], bool)[places]


class SingleBos(TokenCheck):
    """No document has two tokens for the beginning of a text in a row."""

    def look(self, chunk: Chunk, spool: Spool) -> None:
        bos = self.rules.tokenizer.token_id("bos_token")
        if bos is None or bos == self.rules.tokenizer.token_id("eos_token"):
            return
        again = np.append(False, (chunk.ids[1:] == bos) & (chunk.ids[:-1] == bos))
        again[chunk.boundaries[:-1]] = False
        self.blame(chunk, chunk.count(again) > 0)

    def words(self, count: int, first: str) -> str:
        return f"{count} examples have a doubled token, first {first}"


class OwnControl(TokenCheck):
    """Control tokens are as many as the template wrote."""

    def look(self, chunk: Chunk, spool: Spool) -> None:
        found = chunk.count(self.rules.control(chunk.ids))
        self.blame(chunk, found != spool.controls[spooled(spool, chunk)])

    def words(self, count: int, first: str) -> str:
        return f"{count} examples have other control tokens than their template wrote, first {first}"


class Length(TokenCheck):
    """No window is too long, and no document was cut but by the recipe's policy."""

    def __init__(self, rules: Rules) -> None:
        super().__init__(rules)
        self._longest = 0

    def look(self, chunk: Chunk, spool: Spool) -> None:
        # A preference pair is a window of two documents, each of which may be as long as a window.
        pair = self.rules.form == "preference"
        self._longest = max(self._longest, int(chunk.lengths.max()) if pair else chunk.longest_window)
        numbers = spooled(spool, chunk)
        wrong = chunk.lengths != spool.lengths[numbers]
        if not self.rules.truncates:
            wrong |= spool.shortened[numbers] > 0
        self.blame(chunk, wrong)

    def words(self, count: int, first: str) -> str:
        return f"{count} documents do not have the length of their example, the first is {first}"

    @property
    def problem(self) -> str | None:
        if self._longest > self.rules.max_length:
            what = "document" if self.rules.form == "preference" else "window"
            return f"a {what} has {self._longest} tokens, {self.rules.max_length} are allowed"
        return super().problem


class Vocabulary(TokenCheck):
    """Every token has a row in the embedding."""

    largest = -1

    def look(self, chunk: Chunk, spool: Spool) -> None:
        self.largest = max(self.largest, int(chunk.ids.max(initial=-1)))
        self.blame(chunk, chunk.count((chunk.ids >= self.rules.vocabulary) | (chunk.ids < 0)) > 0)

    def words(self, count: int, first: str) -> str:
        return f"token {self.largest} does not fit an embedding of {self.rules.vocabulary} rows, first in {first}"


TOKEN_CHECKS: dict[str, type[TokenCheck]] = {
    "every_example_is_learned_from": Learned,
    "end_of_turn_is_learned": Ends,
    "documents_are_apart": Apart,
    "no_doubled_bos": SingleBos,
    "no_control_token_from_text": OwnControl,
    "within_length": Length,
    "vocabulary_fits_model": Vocabulary,
}
