"""Skeletons of conversations, proved from one symbolic rendering."""

import re
from collections.abc import Sequence

from ft_assets.workers.packs.documents.skeletons import Skeleton, Slot
from ft_assets.workers.templates.rendering import Span
from ft_assets.workers.templates.symbolic import Atoms, SymbolicTemplate
from ft_assets.workers.templates.symbols import Atom, NotProvable, Symbol, Witness
from ft_assets.workers.templates.tracing import Traced, Tracer
from ft_assets.workers.tokenizers.encoder import Encoder
from ft_assets.workers.tokenizers.segments import SEGMENT, Cuts, Tokens, swallowed
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import UserError


class Prover:
    """Creates skeletons of conversations for a template, its variant, and a tokenizer's control tokens."""

    def __init__(self, tracer: Tracer, tokenizer: ChatTokenizer, encoder: Encoder) -> None:
        self._template = SymbolicTemplate(tracer.template)
        self._variant = SymbolicTemplate(tracer.variant) if tracer.variant is not None else None
        self._tracer = Tracer(
            template=self._template,
            variant=self._variant,
            controls=tracer.controls,
            learn=tracer.learn,
            end_of_turn=tracer.end_of_turn,
        )
        self._tokenizer, self._documents = tokenizer, tokenizer.documents(encoder)

    def prove(self, roles: Sequence[str], contents: Sequence[str], prompt: int) -> Skeleton | None:
        """The skeleton of this conversation and all of its kind; None if it cannot be proved correct."""
        try:
            return self._prove(roles, contents, prompt)
        except (NotProvable, UserError):
            # The row's own rendering reports any error in it.
            return None

    def _prove(self, roles: Sequence[str], contents: Sequence[str], prompt: int) -> Skeleton:
        atoms, witness = Atoms(), Witness(dict(enumerate(contents)))
        for template in (self._template, self._variant):
            if template is not None:
                template.observe(atoms, witness)
        messages = [{"role": role, "content": Symbol((Atom(index),), witness)} for index, role in enumerate(roles)]
        traced = self._tracer.trace(messages, where="", prompt=prompt)
        text = traced.rendering.text
        shown = {atom for character in text if (atom := atoms.at(character)) is not None}
        if {atom.index for atom in shown} != set(range(len(roles))):
            raise NotProvable
        # Labels depend on white space and control tokens, so every content must be neither.
        for atom in sorted(shown, key=repr):
            if witness.ask(atom, "blank"):
                raise NotProvable
        self._require_apart(text, atoms)
        pieces = self._pieces(traced, atoms, witness)
        counted = sum(
            self._tokenizer.special_ids[text[start:end]] in self._tokenizer.control_ids
            for start, end in traced.controls
        )
        return Skeleton(
            conditions=tuple(witness.conditions),
            pieces=pieces,
            controls=counted,
            unasked=traced.unasked,
            text=_slot(text, [], atoms).parts,
        )

    def _require_apart(self, text: str, atoms: Atoms) -> None:
        """Raise NotProvable if a content and its surroundings could together spell a control token."""
        names = sorted(self._tokenizer.special_ids)
        if r"(?!\w)" in self._tokenizer.control.pattern:
            # Whether a control token that must be a separate word counts depends on the adjacent letters.
            raise NotProvable
        literals = re.split("|".join(map(re.escape, {each for each in text if atoms.at(each)})), text)
        for number, literal in enumerate(literals):
            first, last = number == 0, number == len(literals) - 1
            for name in names:
                for cut in range(1, len(name)):
                    head, tail = name[:cut], name[cut:]
                    if not last and literal.endswith(head):
                        raise NotProvable
                    if not first and (literal.startswith(tail) or (not last and tail.startswith(literal))):
                        raise NotProvable

    def _pieces(self, traced: Traced, atoms: Atoms, witness: Witness) -> tuple[Tokens | Slot, ...]:
        cuts = Cuts()
        self._tokenizer.cut(cuts, traced.rendering, traced.learned)
        cuts = swallowed(cuts, self._tokenizer.swallowing)
        _require_still(cuts, self._tokenizer, atoms, witness)
        pieces: list[Tokens | Slot] = []
        fixed = Cuts()
        number = 0
        for place, (part, learned) in enumerate(zip(cuts.parts, cuts.parts_learned, strict=True)):
            if part != SEGMENT:
                fixed.parts.append(part)
                fixed.parts_learned.append(learned)
                continue
            text, spans = cuts.segments[number], cuts.learned[number]
            number += 1
            if any(atoms.at(character) for character in text):
                pieces += self._constant(fixed)
                fixed = Cuts()
                pieces.append(_slot(text, spans, atoms))
                continue
            if place and not fixed.parts:
                # Two segments are never adjacent, so there is a control token before this one.
                raise NotProvable
            fixed.segments.append(text)
            fixed.learned.append(spans)
            fixed.parts.append(SEGMENT)
            fixed.parts_learned.append(False)
        return (*pieces, *self._constant(fixed))

    def _constant(self, fixed: Cuts) -> list[Tokens | Slot]:
        if not fixed.parts:
            return []
        fixed.offsets.append(len(fixed.parts))
        return [self._documents.encode(fixed)]


def _require_still(cuts: Cuts, tokenizer: ChatTokenizer, atoms: Atoms, witness: Witness) -> None:
    """Raise NotProvable unless no adjacent control token can swallow the first or last characters of contents."""
    neither = (False, False)
    segments = iter(cuts.segments)
    for place, part in enumerate(cuts.parts):
        if part != SEGMENT:
            continue
        text = next(segments)
        before = tokenizer.swallowing.get(cuts.parts[place - 1], neither)[1] if place else False
        after = tokenizer.swallowing.get(cuts.parts[place + 1], neither)[0] if place + 1 < len(cuts.parts) else False
        first, last = atoms.at(text[0]), atoms.at(text[-1])
        if before and first is not None and witness.ask(first, "padded before"):
            raise NotProvable
        if after and last is not None and witness.ask(last, "padded after"):
            raise NotProvable


def _slot(text: str, spans: Sequence[Span], atoms: Atoms) -> Slot:
    parts: list[str | Atom] = []
    # Where each character of the canonical text is: its part, and its offset in it.
    places: list[tuple[int, int]] = []
    for character in text:
        atom = atoms.at(character)
        if atom is not None:
            parts.append(atom)
            places.append((len(parts) - 1, 0))
        elif parts and isinstance(parts[-1], str):
            places.append((len(parts) - 1, len(parts[-1])))
            parts[-1] += character
        else:
            parts.append(character)
            places.append((len(parts) - 1, 0))
    places.append((len(parts), 0))
    return Slot(parts=tuple(parts), learned=tuple((places[start], places[end]) for start, end in spans))
