"""Rendering a conversation for all contents at once: a chat template run with symbols in place of contents.

The template is the same and so is the code that finds the assistant's turns; only the sandbox keeps symbols where Jinja
would convert everything to text. The result is *canonical text*, in which a private character stands for each atom.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import jinja2
from jinja2.nativetypes import NativeCodeGenerator
from jinja2.runtime import Context

from ft_assets.workers.templates.chat_environment import ChatEnvironment, GenerationMarks
from ft_assets.workers.templates.rendering import Messages, Span, Tools
from ft_assets.workers.templates.sandbox import CountedCode
from ft_assets.workers.templates.symbols import Atom, NotProvable, Symbol, Witness, concatenation, parts_of
from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.templates.turns import TurnFinder

_FIRST_PRIVATE, _LAST_PRIVATE = 0xF0000, 0xFFFFD


@dataclass(frozen=True, slots=True)
class Atoms:
    """The atoms of one proof in the order of their appearance; a private character stands for each."""

    of: dict[Atom, int] = field(default_factory=dict)
    listed: list[Atom] = field(default_factory=list)

    def spell(self, value: "str | Symbol") -> str:
        """The canonical text of a rendering. Raises NotProvable if literals use private characters."""
        parts = parts_of(value)
        if any(
            _FIRST_PRIVATE <= ord(each) <= _LAST_PRIVATE for part in parts if isinstance(part, str) for each in part
        ):
            raise NotProvable
        return "".join(part if isinstance(part, str) else self._placeholder(part) for part in parts)

    def at(self, character: str) -> Atom | None:
        """The atom that a character of a canonical text stands for."""
        number = ord(character) - _FIRST_PRIVATE
        return self.listed[number] if 0 <= number < len(self.listed) else None

    def _placeholder(self, atom: Atom) -> str:
        number = self.of.setdefault(atom, len(self.listed))
        if number == len(self.listed):
            self.listed.append(atom)
        if _FIRST_PRIVATE + number > _LAST_PRIVATE:
            raise NotProvable
        return chr(_FIRST_PRIVATE + number)


class SymbolicTemplate(ChatTemplate):
    """A chat template over messages whose contents are symbols; renders canonical text.

    Raises NotProvable instead of any error, as only a row's real rendering can report what is wrong with it.
    """

    def __init__(self, template: ChatTemplate) -> None:
        super().__init__(template.source, name=template.name, variables=template.variables, control=template.control)
        self.probes = template.probes
        if self.marked:
            self._lead = template._lead
        self.atoms, self.witness = Atoms(), Witness({})

    def observe(self, atoms: Atoms, witness: Witness) -> None:
        """Begin a proof: further renderings are spelled with ``atoms`` and answered by ``witness``."""
        self.atoms, self.witness = atoms, witness

    def _environment(self) -> jinja2.Environment:
        return _Environment()

    def _render(self, messages: Messages, tools: Tools, where: str, marks: tuple[str, str], prompt: bool) -> str:
        try:
            rendered: Any = self._template.render(self._context(messages, tools, marks, prompt))
        except Exception:
            raise NotProvable from None
        return self.atoms.spell(rendered)

    def _finder(self, messages: Messages, tools: Tools, text: str, where: str) -> TurnFinder:
        return _SymbolicTurns(self, messages, tools, text, where)


class _SymbolicTurns(TurnFinder):
    _template: SymbolicTemplate

    def _find_content(self, index: int, start: int) -> Span | None:
        for place in range(start, len(self._text)):
            atom = self._template.atoms.at(self._text[place])
            if atom is not None and atom.index == index:
                return place, place + 1
        return None

    def _start_after_previous(self, index: int, before: str) -> int:
        raise NotProvable

    def _end_of_rewritten(self, index: int, start: int, content: Span | None) -> int:
        raise NotProvable

    def _end_of_content(self, content: Span) -> int:
        atom = self._template.atoms.at(self._text[content[0]])
        if atom is None or atom.trims:
            # It would be undecidable whether white space after it is the content's.
            raise NotProvable
        return content[1]

    def _common_length(self, through: str, text: str) -> int:
        if not text.startswith(through):
            differ = next((pair for pair in zip(through, text, strict=False) if pair[0] != pair[1]), None)
            atoms = [self._template.atoms.at(each) for each in differ or ()]
            for atom, other, character in zip(atoms, atoms[::-1], (differ or ("", ""))[::-1], strict=True):
                # Where a content begins to differ from something else depends on the content.
                if atom is not None and (other is not None or self._template.witness.ask(atom, "starts", character)):
                    raise NotProvable
        return super()._common_length(through, text)


class _Generator(CountedCode, NativeCodeGenerator):
    """Compiles output without converting each value to text."""


class _Marks(GenerationMarks):
    def _mark(self, opening: str, closing: str, caller: Callable[[], Any]) -> Any:
        return concatenation((opening, caller(), closing))


class _Environment(ChatEnvironment):
    code_generator_class = _Generator

    def __init__(self) -> None:
        super().__init__(_Marks)
        for name, own in (("trim", _trim), ("string", _same)):
            self.filters[name] = _or_limited(own, self.filters[name])
        for name in ("string", "iterable", "sequence"):
            self.tests[name] = _or_else(_is_text, self.tests[name])

    @staticmethod
    def concat(values: Iterable[Any]) -> Any:
        return concatenation(values)

    def strung(self, context: Context, values: Iterable[Any]) -> Any:
        return concatenation(values)


def _trim(value: Symbol, chars: str | None = None) -> Any:
    return value.strip(chars)


def _same(value: Symbol) -> Symbol:
    return value


def _is_text(_: Symbol) -> bool:
    return True


def _or_else(own: Callable[..., Any], usual: Any) -> Callable[..., Any]:
    """``own`` for symbols and ``usual`` for everything else."""

    def chosen(value: Any, *args: Any, **kwargs: Any) -> Any:
        return own(value, *args, **kwargs) if isinstance(value, Symbol) else usual(value, *args, **kwargs)

    return chosen


def _or_limited(own: Callable[..., Any], usual: Any) -> Callable[..., Any]:
    """``_or_else`` for a filter that counts its work."""

    @jinja2.pass_context
    def chosen(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        return own(value, *args, **kwargs) if isinstance(value, Symbol) else usual(context, value, *args, **kwargs)

    return chosen
