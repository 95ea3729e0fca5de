"""From one JSON object in a known form to an example: recognition by fields, and conversion."""

import difflib
import math
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from ft_assets.settings.catalogue.forms import GUESSED, RECOGNISED, ROW_FORMS
from ft_assets.settings.dataset.forms import KIND, WEIGHT, FormSettings
from ft_assets.workers.datasets.forms.field_names import names_an_answer
from ft_assets.workers.datasets.forms.joined import as_mapped
from ft_assets.workers.datasets.forms.parts import has_tool_parts, read_parts
from ft_assets.workers.datasets.forms.preference import read_pair
from ft_assets.workers.datasets.forms.reasons import NAME, Reason, RowProblem
from ft_assets.workers.datasets.forms.spelling import as_label, as_turns
from ft_assets.workers.datasets.forms.texts import TYPES, TextReader, clean, has_stacked_marks, is_blank
from ft_assets.workers.datasets.forms.tools import read_tools
from ft_assets.workers.datasets.forms.turns import Placed, Turn, check_order, read_turns
from ft_resources.lazy import load
from ft_resources.strict import nearest

MAX_KIND_CHARACTERS = 100
MAX_PAGE = 2**31 - 1
MIN_WEIGHT, MAX_WEIGHT = 1e-9, 1e9
_LISTS = ("messages", "conversations")
# Fields of a row that an error names.
_SHOWN = 6


@dataclass(kw_only=True, slots=True)
class Converted:
    """An example as in EXAMPLES; ``unused`` are the row's non-null fields that were not used, and ``unanswered`` is
    whether a last turn of the user is left out, as nobody answers it."""

    form: str
    messages: list[Turn] = field(default_factory=list)
    chosen: list[Turn] = field(default_factory=list)
    rejected: list[Turn] = field(default_factory=list)
    text: str = ""
    tools: str = ""
    group: str = ""
    kind: str = ""
    page: int = 0
    weight: float = 1.0
    unused: tuple[str, ...] = ()
    unanswered: bool = False
    changed: bool = False


def convert(row: dict[str, Any], settings: FormSettings) -> Converted:
    """The example in ``row``. Raises RowProblem that names the field (as the form calls it), never its text."""
    row = as_mapped(row, settings)
    form = form_of(row, settings)
    rows = ROW_FORMS[form].row
    fields = {*rows.needs, *rows.may_have, *([KIND] if settings.reads_kind else [])}
    value = {name: row[settings.source(name)] for name in fields if settings.source(name) in row}
    if settings.turns is not None:
        value = {name: as_turns(item, name, settings.turns) for name, item in value.items()}
    if settings.labels is not None and "label" in value:
        value["label"] = as_label(value["label"], settings.labels)
    texts = TextReader()
    result = Converted(form=form)
    load(rows.reader)(value, result, texts)
    known = {settings.source(name) for name in fields}
    if form == "text" and isinstance(row.get("source"), str) and is_page(row.get("page")):
        # What intake extracts from books and PDFs: pieces of one source belong together.
        result.group, result.page = clean(_plain(row["source"]), "source"), row["page"]
        known |= {"source", "page"}
    if settings.group_by is not None:
        result.group = group_of(row.get(settings.group_by), settings.group_by)
        known.add(settings.group_by)
    if settings.weight is not None:
        result.weight = weight_of(row.get(settings.weight))
        known.add(settings.weight)
    result.kind = kind_of(value.get(KIND))
    result.changed = texts.changed
    result.unused = tuple(sorted(name for name, item in row.items() if name not in known and item is not None))
    if result.unanswered and (beside := next(filter(names_an_answer, result.unused), "")):
        named = f" ({beside!r})" if NAME.fullmatch(beside) else ""
        problem = f"the last turn is 'user', and its answer may be in another field{named}"
        raise RowProblem(Reason.ROLE_ORDER, "", problem)
    return result


def form_of(row: dict[str, Any], settings: FormSettings) -> str:
    """The form that the policy names, else the one that the fields and values of ``row`` show, which is as mapped.

    The first form of GUESSED whose fields are all present (and, if possible, not null) is used, unless the row cannot
    be read so and has the values of a form of RECOGNISED.
    """
    if settings.form != "auto":
        for name in ROW_FORMS[settings.form].row.needs:
            if settings.source(name) not in row:
                raise RowProblem(Reason.WRONG_TYPE, name, partial(_missing, settings.source(name), row))
        return settings.form
    if settings.recognisable.isdisjoint(row):
        raise RowProblem(Reason.UNKNOWN_SCHEMA, "", partial(_unknown, row, settings, frozenset[str]()))
    present = frozenset(name for name, source in settings.guessed if source in row)
    guess = _guess(present, frozenset(name for name, source in settings.guessed if row.get(source) is not None))

    def value(field: str) -> Any:
        return row.get(settings.source(field))

    for name, form in RECOGNISED.items():
        there = form.instead_of == guess and all(value(field) is not None for field in form.needs)
        if there and load(form.recognised)(value):
            return name
    if guess:
        return guess
    raise RowProblem(Reason.UNKNOWN_SCHEMA, "", partial(_unknown, row, settings, present))


@cache
def _guess(present: frozenset[str], filled: frozenset[str]) -> str:
    for there in (filled, present):
        for name, form in GUESSED.items():
            if there.issuperset(form.needs) and (name != "text" or there == {"text"}):
                return name
    return ""


def _missing(name: str, row: dict[str, Any]) -> str:
    hint = nearest(name, [key for key in row if NAME.fullmatch(key)])
    return f"this field is missing; {hint}" if hint.startswith("did you mean") else "this field is missing"


def _unknown(row: dict[str, Any], settings: FormSettings, present: frozenset[str]) -> str:
    """The fields that the row has and should have, with a hint if a field name is nearly right."""
    if "text" in present:
        others = ", ".join(sorted(present - {"text"}))
        return f"the row has both text and {others}, so its form is ambiguous"
    wanted = sorted({settings.source(name) for form in GUESSED.values() for name in form.needs})
    names = [key for key in row if NAME.fullmatch(key)][:_SHOWN]
    for name in names:
        # A stricter cutoff than usual: "function" is not a misspelt "instruction".
        close = difflib.get_close_matches(name, [one for one in wanted if one not in row], n=1, cutoff=0.8)
        listed = not close or close[0] not in _LISTS or isinstance(row[name], list)
        if close and listed and name not in wanted:
            return f"the row has {name!r}; did you mean {close[0]!r}?"
    # Other names could be the row's text.
    more = f" and {len(row) - len(names)} more" if len(row) > len(names) else ""
    has = ", ".join(names) + more if names else "none that can be shown"
    forms = "; ".join(" and ".join(settings.source(one) for one in form.needs) for form in GUESSED.values())
    return f"the row's fields ({has}) fit none of: {forms}"


def read_messages(value: dict[str, Any], result: Converted, texts: TextReader) -> None:
    """Turns in ``messages``."""
    _read_conversation("messages", value, result, texts)
    _read_tools(value, result, anthropic=has_tool_parts(value["messages"]))


def read_sharegpt(value: dict[str, Any], result: Converted, texts: TextReader) -> None:
    """Turns in ``conversations``, as ShareGPT names them."""
    _read_conversation("conversations", value, result, texts)
    _read_tools(value, result, anthropic=False)


def read_anthropic(value: dict[str, Any], result: Converted, texts: TextReader) -> None:
    """Turns in ``messages``, with the system turn in its own field, as Anthropic writes them."""
    _read_conversation("messages", value, result, texts)
    _read_tools(value, result, anthropic=True)


def _read_conversation(name: str, value: dict[str, Any], result: Converted, texts: TextReader) -> None:
    system, said = read_system(value, texts), read_turns(value[name], name, texts)
    turns, names = system.turns + said.turns, system.names + said.names
    if turns[-1].role == "user" and turns[-2:-1] and turns[-2].role == "assistant" and not turns[-2].tool_calls:
        turns, names, result.unanswered = turns[:-1], names[:-1], True
    check_order(turns, names)
    result.messages = turns


def _read_tools(value: dict[str, Any], result: Converted, *, anthropic: bool) -> None:
    for name in ("tools", "functions"):
        result.tools = result.tools or read_tools(value.get(name), name, anthropic=anthropic)


def read_completion(value: dict[str, Any], result: Converted, texts: TextReader) -> None:
    """A prompt and its completion, both texts or both lists of turns."""
    before, after = read_halves(value, texts)
    result.messages = before + after
    result.tools = read_tools(value.get("tools"), "tools")


def read_halves(value: dict[str, Any], texts: TextReader) -> tuple[list[Turn], list[Turn]]:
    """The turns of the prompt, after the system turn if there is one, and those of the completion."""
    prompt, completion = value["prompt"], value["completion"]
    system = read_system(value, texts)
    if isinstance(prompt, list) and isinstance(completion, list):
        before, after = read_turns(prompt, "prompt", texts), read_turns(completion, "completion", texts)
        asked, names = system.turns + before.turns, system.names + before.names
        check_order(asked, names, prompt_only=True)
        check_order(asked + after.turns, names + after.names)
        return asked, after.turns
    if isinstance(prompt, list) or isinstance(completion, list):
        name, other = ("completion", "prompt") if isinstance(prompt, list) else ("prompt", "completion")
        problem = f"this should be a list of turns as {other} is, not {TYPES[type(value[name])]}"
        raise RowProblem(Reason.WRONG_TYPE, name, problem)
    asked = [*system.turns, Turn("user", texts.text(prompt, "prompt"))]
    return asked, [Turn("assistant", texts.text(_written(completion), "completion"))]


def _written(answer: Any) -> Any:
    """A whole number as a text, as a CSV has it: labels are often numbers."""
    return str(answer) if isinstance(answer, int) and not isinstance(answer, bool) else answer


def read_alpaca(value: dict[str, Any], result: Converted, texts: TextReader) -> None:
    """Instruction and input are one user turn with a blank line between them; the input may be missing or blank."""
    system = read_system(value, texts).turns
    instruction = read_instruction(value, texts)
    output = texts.text(_written(value["output"]), "output")
    result.messages = [*system, Turn("user", instruction), Turn("assistant", output)]


def read_instruction(value: dict[str, Any], texts: TextReader) -> str:
    """Alpaca's instruction, and its input after a blank line."""
    instruction = texts.text(value["instruction"], "instruction")
    if value.get("input") is not None:
        more = texts.maybe_empty(value["input"], "input")
        if not is_blank(more):
            instruction += "\n\n" + more
    return instruction


def read_preference(value: dict[str, Any], result: Converted, texts: TextReader) -> None:
    """See ``read_pair``."""
    system = read_system(value, texts).turns
    result.messages, result.chosen, result.rejected = read_pair(
        value.get("prompt"), value["chosen"], value["rejected"], system, texts
    )
    result.tools = read_tools(value.get("tools"), "tools")


def read_text(value: dict[str, Any], result: Converted, texts: TextReader) -> None:
    """A plain text."""
    result.text = texts.text(value["text"], "text")


def read_system(value: dict[str, Any], texts: TextReader) -> Placed:
    """The system turn in its own field; null and blank fields count as missing."""
    if value.get("system") is None:
        return Placed([], [])
    system = value["system"]
    if isinstance(system, list):
        system = read_parts(system, "system", "system").text or ""
    text = texts.maybe_empty(system, "system")
    return Placed([], []) if is_blank(text) else Placed([Turn("system", text)], ["system"])


def is_page(value: Any) -> bool:
    """Whether ``value`` is a page of a PDF, or 0."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_PAGE


def _plain(text: str) -> str:
    """``text`` without lone surrogates, for labels that are not trained on."""
    return text.encode(errors="ignore").decode()


def group_of(value: Any, name: str) -> str:
    """The group as text: numbers are converted, so 7 and "7" are one group."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or _plain(value) != value or is_blank(value):
        problem = "split.group_by needs a text or a whole number in this field"
        raise RowProblem(Reason.NO_GROUP, name, problem)
    return clean(value, name)


def weight_of(value: Any) -> float:
    """The weight as a number; a text, as in a CSV, may hold it."""
    try:
        weight = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        weight = math.nan
    if math.isnan(weight):
        raise RowProblem(Reason.BAD_WEIGHT, WEIGHT, "the weight should be a number")
    if not MIN_WEIGHT <= weight <= MAX_WEIGHT:
        problem = f"the weight should be from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}; remove rows that should not count"
        raise RowProblem(Reason.BAD_WEIGHT, WEIGHT, problem)
    return weight


def kind_of(value: Any) -> str:
    """The optional label that scores are broken down by; anything but a plain short text counts as missing."""
    plain = isinstance(value, str) and len(value) <= MAX_KIND_CHARACTERS and _plain(value) == value
    plain = plain and not has_stacked_marks(value)
    return clean(value) if plain else ""
