"""Convert a batch's conversations to labelled tokens: by a skeleton if there is one, else one by one."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.packs.documents.assembly import Assembly, Pieces
from ft_assets.workers.packs.documents.conversations import Conversations, Shape
from ft_assets.workers.packs.documents.prover import Prover
from ft_assets.workers.packs.documents.skeletons import Skeleton, Slot
from ft_assets.workers.templates.rendering import Messages, Span, Tools
from ft_assets.workers.templates.template import strings
from ft_assets.workers.templates.tracing import Traced, Tracer, require_all_shown
from ft_assets.workers.tokenizers.encoder import Encoder
from ft_assets.workers.tokenizers.segments import Cuts, Documents, Tokens
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadBase, UserError

# A shape with more skeletons, or with this many contents without one, is not worth the search.
_SKELETONS, _FAILURES = 16, 8
_CHECKED_EVERY = 1024


class SkeletonDiffers(Exception):
    """A skeleton's document differs from the template's: an error of the platform, not of the row.

    Its earlier documents are in doubt, too: all rows must be rendered one by one (``PrepareSettings.skeletons``).
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A conversation as input of its template; nothing is learned of the first ``prompt`` messages."""

    messages: Messages
    tools: Tools
    prompt: int
    where: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Labelled:
    """The documents of conversations; ``trimmed`` bool [documents], whether white space around a content was removed,
    ``spelled`` bool [documents], whether a message spells a control token, ``bare`` int32 [documents], turns whose
    thoughts the template drops, and ``unasked`` int32 [documents], turns behind other tokens than their prompt."""

    documents: Documents
    controls: NDArray[np.int32]
    trimmed: NDArray[np.bool_]
    spelled: NDArray[np.bool_]
    bare: NDArray[np.int32]
    unasked: NDArray[np.int32]


@dataclass(slots=True)
class _Known:
    """What is known of a shape: its skeletons, and for how many conversations each was used."""

    skeletons: list[Skeleton] = field(default_factory=list)
    uses: list[int] = field(default_factory=list)
    failures: int = 0

    def next_checked(self, index: int, numbers: Sequence[int]) -> list[int]:
        """The conversations to check among the next that use a skeleton: its first, and ever fewer later."""
        places = range(self.uses[index], self.uses[index] + len(numbers))
        self.uses[index] += len(numbers)
        chosen = zip(places, numbers, strict=True)
        return [number for place, number in chosen if not place & (place - 1) or not place % _CHECKED_EVERY]


class ChatLabeller:
    """Converts conversations to labelled tokens.

    Args:
        by_row: never use skeletons.
    """

    def __init__(self, tracer: Tracer, tokenizer: ChatTokenizer, encoder: Encoder, *, by_row: bool = False) -> None:
        self._tracer, self._tokenizer, self._encoder = tracer, tokenizer, encoder
        self._documents = tokenizer.documents(encoder)
        self._prover = None if by_row else Prover(tracer, tokenizer, encoder)
        self._known: dict[Shape, _Known] = {}

    def label(self, chats: Conversations, row: Callable[[int], Row]) -> Labelled:
        """The documents of ``chats``; ``row(number)`` returns one as input of its template.

        Raises BadData and BadBase, naming the row, for conversations that cannot be rendered or labelled, and
        SkeletonDiffers if one of the few rows rendered a second time differs.
        """
        total = len(chats.contents)
        assembly = Assembly(total)
        controls = np.zeros(total, np.int32)
        trimmed = np.zeros(total, np.bool_)
        # A conversation with thoughts has no skeleton where the template drops them.
        bare = np.zeros(total, np.int32)
        unasked = np.zeros(total, np.int32)
        spelling = self._spelling(chats)
        spelled = np.zeros(total, np.bool_)
        spelled[[n for n in spelling if any(map(self._tokenizer.spells, filter(None, chats.contents[n])))]] = True
        found, checked = self._find(chats, spelling)
        texts: list[str] = []
        spans: list[Sequence[Span]] = []
        opening: list[int] = []
        places: list[list[int | None]] = []
        for skeleton, numbers in found:
            contents = [chats.contents[number] for number in numbers]
            firsts: list[int | None] = []
            for piece in skeleton.pieces:
                firsts.append(len(texts) if isinstance(piece, Slot) else None)
                if isinstance(piece, Slot):
                    filled, learned = piece.fill(contents)
                    texts += filled
                    spans += learned
            if firsts[0] is not None:
                opening += range(firsts[0], firsts[0] + len(numbers))
            places.append(firsts)
            controls[numbers] = skeleton.controls
            unasked[numbers] = skeleton.unasked
            trimmed[numbers] = skeleton.trimmed(contents)
        segments = assembly.encoded(self._encoder.encode(texts, spans, opening))
        for (skeleton, numbers), firsts in zip(found, places, strict=True):
            assembly.place(numbers, _pieces(assembly, segments, skeleton, firsts, len(numbers)))
        alone = sorted(set(range(total)).difference(*(numbers for _, numbers in found)))
        if alone:
            for number, traced in self._label_alone(alone, row, assembly, controls, trimmed, spelled):
                bare[number], unasked[number] = traced.bare, traced.unasked
        labelled = Labelled(
            documents=assembly.documents(),
            controls=controls,
            trimmed=trimmed,
            spelled=spelled,
            bare=bare,
            unasked=unasked,
        )
        for number in checked:
            self._require_same(labelled, number, row(number))
        return labelled

    def contents(self, document: Tokens, row: Row) -> NDArray[np.int8] | None:
        """Which tokens of a row's document are wholly inside a message's content, int8 [tokens].

        0 is for all others; adjacent contents have different numbers. None if the contents cannot be located. Slow: the
        row is rendered again.
        """
        traced = self._trace(row)
        text = traced.rendering.text
        template, tools, where = self._tracer.template, row.tools, row.where
        own = template.render(row.messages, where=where, tools=tools)
        spans = traced.rendering.moved(template.contents(row.messages, own, where=where, tools=tools))
        edges = [0, *itertools.chain.from_iterable(spans), len(text)]
        cuts = Cuts()
        # An engine reports tokens that overlap spans of a text, even partly.
        for asked in (zip(edges[::2], edges[1::2], strict=True), spans[::2], spans[1::2]):
            cuts.add(text, traced.controls, self._tokenizer.special_ids, [(a, b) for a, b in asked if a < b])
        encoded = self._documents.encode(cuts, where=lambda _: row.where)
        if not np.array_equal(encoded.ids, np.tile(document.ids, 3)):
            return None
        others, even, odd = encoded.learned.reshape(3, -1)
        return np.where(others | (even & odd), 0, even + 2 * odd).astype(np.int8)

    def _label_alone(
        self,
        numbers: list[int],
        row: Callable[[int], Row],
        assembly: Assembly,
        controls: NDArray[np.int32],
        trimmed: NDArray[np.bool_],
        spelled: NDArray[np.bool_],
    ) -> list[tuple[int, Traced]]:
        cuts = Cuts()
        wheres = []
        found = []
        for number in numbers:
            each = row(number)
            traced = self._trace(each)
            text = traced.rendering.text
            require_all_shown(self._tracer.template, each.messages, each.tools, text, each.where)
            cuts.add(text, traced.controls, self._tokenizer.special_ids, traced.learned)
            written = (text[start:end] for start, end in traced.controls)
            ids = (self._tokenizer.special_ids[name] for name in written)
            controls[number] = sum(one in self._tokenizer.control_ids for one in ids)
            spelled[number] |= any(map(self._tokenizer.spells, strings(each.messages)))
            trimmed[number] = any(str(message.get("content") or "") not in text for message in each.messages)
            found.append((number, traced))
            wheres.append(each.where)
        encoded = self._documents.encode(cuts, where=lambda index: wheres[index])
        pieces = assembly.encoded(encoded, encoded.control)
        assembly.place(numbers, Pieces(starts=pieces.starts[:, None], lengths=pieces.lengths[:, None]))
        return found

    def _trace(self, row: Row) -> Traced:
        try:
            return self._tracer.trace(row.messages, where=row.where, tools=row.tools, prompt=row.prompt)
        except BadBase:
            # A turn that the template leaves out cannot be located either; that is the cause to tell.
            template = self._tracer.template
            text = template.render(row.messages, where=row.where, tools=row.tools)
            require_all_shown(template, row.messages, row.tools, text, row.where)
            raise

    def _find(self, chats: Conversations, spelling: set[int]) -> tuple[list[tuple[Skeleton, list[int]]], list[int]]:
        """Skeletons with the numbers of their conversations; and which of those to check."""
        if self._prover is None:
            return [], []
        by_shape: dict[Shape, list[int]] = {}
        for number, shape in enumerate(chats.shapes):
            if shape is not None:
                by_shape.setdefault(shape, []).append(number)
        found, checked = [], []
        for shape, numbers in by_shape.items():
            known = self._known.setdefault(shape, _Known())
            left = [number for number in numbers if number not in spelling] if spelling else numbers
            for index in itertools.count():
                if not self._has(known, index, shape, chats, left):
                    break
                fits, left = known.skeletons[index].fitting(left, chats.contents)
                if fits:
                    found.append((known.skeletons[index], fits))
                    checked += known.next_checked(index, fits)
        return found, checked

    def _has(self, known: _Known, index: int, shape: Shape, chats: Conversations, numbers: list[int]) -> bool:
        """Whether a shape has a skeleton ``index``, after searching for one for the first fitting conversation."""
        assert self._prover is not None
        while index == len(known.skeletons) < _SKELETONS and known.failures < _FAILURES and numbers:
            skeleton = self._prover.prove(shape.roles, chats.contents[numbers[0]], shape.prompt)
            if skeleton is not None:
                known.skeletons.append(skeleton)
                known.uses.append(0)
                break
            known.failures += 1
            del numbers[0]
        return index < len(known.skeletons)

    def _spelling(self, chats: Conversations) -> set[int]:
        """Conversations with a message that contains a control token's text."""
        joined = "".join(filter(None, itertools.chain.from_iterable(chats.contents)))
        heads = self._tokenizer.heads_in(joined)
        if not heads:
            return set()
        return {number for number, contents in enumerate(chats.contents) if self._has_control(contents, heads)}

    def _has_control(self, contents: Iterable[str | None], heads: Sequence[str]) -> bool:
        search = self._tokenizer.control.search
        return any(text and any(head in text for head in heads) and search(text) for text in contents)

    def _require_same(self, labelled: Labelled, number: int, row: Row) -> None:
        """Raise SkeletonDiffers unless a document equals the template's own rendering of its row."""
        if not self._agrees(labelled, number, row):
            raise SkeletonDiffers(f"{row.where}, {self._tracer.template.name}: a skeleton made another document")

    def _agrees(self, labelled: Labelled, number: int, row: Row) -> bool:
        cuts = Cuts()
        try:
            traced = self._trace(row)
            cuts.add(traced.rendering.text, traced.controls, self._tokenizer.special_ids, traced.learned)
            encoded = self._documents.encode(cuts)
        except UserError:
            return False
        document = labelled.documents.document(number)
        return (
            np.array_equal(document.ids, encoded.ids)
            and np.array_equal(document.learned, encoded.learned)
            and np.array_equal(document.control, encoded.control)
        )


def _pieces(
    assembly: Assembly, segments: Pieces, skeleton: Skeleton, firsts: Sequence[int | None], count: int
) -> Pieces:
    """The pieces of ``count`` conversations of a skeleton, whose slots have their segments from ``firsts`` on."""
    starts = np.empty((count, len(skeleton.pieces)), np.int64)
    lengths = np.empty_like(starts)
    for column, (piece, first) in enumerate(zip(skeleton.pieces, firsts, strict=True)):
        if isinstance(piece, Tokens):
            starts[:, column], lengths[:, column] = assembly.constant(piece), len(piece.ids)
        elif first is not None:
            starts[:, column] = segments.starts[first : first + count]
            lengths[:, column] = segments.lengths[first : first + count]
    return Pieces(starts=starts, lengths=lengths)
