"""Unused fields that say something about their row: refused, or named in a warning."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import orjson

from ft_assets.settings.catalogue.forms import GUESSED, ROW_FORMS
from ft_assets.settings.dataset.forms import WEIGHT, FormSettings
from ft_assets.workers.datasets.forms.convert import convert, form_of
from ft_assets.workers.datasets.forms.guess import Guess, try_out
from ft_assets.workers.datasets.forms.guesses import LABELS, MAX_SAMPLE
from ft_assets.workers.datasets.forms.joined import as_mapped
from ft_assets.workers.datasets.forms.parse import Parsed
from ft_assets.workers.datasets.forms.reasons import RowProblem
from ft_assets.workers.datasets.forms.spelling import as_label
from ft_assets.workers.datasets.forms.switches import SWITCHES
from ft_assets.workers.datasets.forms.turns import THOUGHTS
from ft_assets.workers.datasets.forms.wording import guess_labels, is_liked
from ft_resources.errors import BadData

_LIKED = ("kto_tag", "thumbs", *LABELS)
_PAIR = ("chosen", "rejected")
SYSTEM = ("system", "system_prompt", "system_message", "instruction", "instructions", "persona")
"""Names that uploads give to a field with the system turn."""
SAYS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(_LIKED, "describes the answer, and training does not use it"),
        **dict.fromkeys(("score", "rating", "stars", "grade"), "grades rows, and all rows count equally in training"),
        **dict.fromkeys(_PAIR, "holds one answer of a preference pair, and this form of data has no pairs"),
        "weight": "is a weight, and all rows count equally in training",
        **dict.fromkeys(SYSTEM, "holds a system prompt that the model would not see"),
        "tools": "holds tool definitions that the model would not see",
        "history": "holds earlier turns that the model would not see",
        "images": "holds pictures that the model would not see",
        "documents": "holds documents that the model would not see",
        **dict.fromkeys(SWITCHES, "sets chat template options, and all rows are rendered alike"),
        **dict.fromkeys(
            THOUGHTS,
            "holds thoughts that the model would not learn (it learns those at the beginning of the answer, as "
            "<think>…</think>)",
        ),
    }
)
"""The fields, and what is lost if they are not used."""


@dataclass(kw_only=True, slots=True)
class _Unused:
    """One unused field: how many rows have it, the first of them, and what labels say."""

    rows: int = 0
    labels: Counter[bool | None] = field(default_factory=Counter)
    first_bad: tuple[str, int] | None = None
    sample: list[dict[str, Any]] = field(default_factory=list)


class Meanings:
    """The unused fields of an upload, counted chunk by chunk."""

    def __init__(self, settings: FormSettings) -> None:
        self._settings = settings
        self._found: dict[str, _Unused] = {}
        self._known: dict[str, frozenset[str]] = {}

    def add(self, file: str, first_row: int, lines: bytes, parsed: Parsed) -> None:
        """Count the fields of one chunk. Raises BadData at an answer that was rejected and would be learned, and at a
        switch of the chat template."""
        names = [name for name in parsed.unused if name.lower() in SAYS]
        if not names:
            return
        for place, line in enumerate(lines.split(b"\n")):
            try:
                row = orjson.loads(line)
                form = form_of(as_mapped(row, self._settings), self._settings) if isinstance(row, dict) else ""
            except (orjson.JSONDecodeError, RowProblem):
                continue
            if form:
                for name in names:
                    if row.get(name) not in (None, "", [], {}) and name not in self._names(form):
                        self._count(name, row, form, (file, first_row + place))

    def _names(self, form: str) -> frozenset[str]:
        """The upload's fields that ``form`` reads."""
        if form not in self._known:
            row, settings = ROW_FORMS[form].row, self._settings
            read = {settings.source(name) for name in (*row.needs, *row.may_have, "kind")}
            self._known[form] = frozenset({*read, *settings.ignore, settings.group_by or "", settings.weight or ""})
        return self._known[form]

    def _count(self, name: str, row: dict[str, Any], form: str, place: tuple[str, int]) -> None:
        found = self._found.setdefault(name, _Unused())
        # DeepSeek's switch has the name of thoughts.
        switch = name.lower() in SWITCHES or (name.lower() in THOUGHTS and isinstance(row[name], bool))
        if switch and not ROW_FORMS[form].form.plain:
            raise self._refusal(f"this field {SAYS[SWITCHES[0]]}", name, place, None)
        found.rows += 1
        if len(found.sample) < MAX_SAMPLE:
            found.sample.append(row)
        if ROW_FORMS[form].form.name != "chat":
            return
        if name.lower() in _LIKED:
            said = self._said(name, row[name])
            found.labels[said] += 1
            if said is False and found.first_bad is None:
                found.first_bad = place
        if name.lower() == "rejected" and self._learns(row, row[name]):
            problem = "the rejected answer would be trained on"
            raise self._refusal(problem, name, place, self._use(name, found.sample))

    def _said(self, name: str, label: Any) -> bool | None:
        words = self._settings.labels
        return is_liked(label if words is None else as_label(label, words), name)

    def _learns(self, row: dict[str, Any], rejected: Any) -> bool:
        """Whether the last turn that ``row`` teaches is ``rejected``, a text or turns."""
        try:
            answer = convert(row, self._settings).messages[-1].content
        except RowProblem:
            return False
        last = rejected[-1] if isinstance(rejected, list) else rejected
        text = last.get("content", last.get("value")) if isinstance(last, dict) else last
        return isinstance(text, str) and text.strip() == answer.strip()

    def warnings(self) -> tuple[str, ...]:
        """A warning for each unused field, with the lines of dataset.yaml that use or ignore it.

        Raises BadData if answers that people did not like would be learned as good ones.
        """
        for name, unused in self._found.items():
            if unused.first_bad is not None and not unused.labels[None]:
                count = unused.labels[False]
                problem = (
                    f"{name} marks this answer as disliked, and it would be trained on as a good one "
                    f"({count:,} such {'row' if count == 1 else 'rows'})"
                )
                raise self._refusal(problem, name, unused.first_bad, self._use(name, unused.sample))
        found = [self._warning(name, unused) for name, unused in sorted(self._found.items())]
        if len(found) > 1:
            found.append(f"To ignore all of them, put this into dataset.yaml:\n{self._ignore(*sorted(self._found))}")
        return tuple(found)

    def _warning(self, name: str, found: _Unused) -> str:
        rows = f"{found.rows:,} {'row has' if found.rows == 1 else 'rows have'}"
        return f"{rows} a field {name!r} that is not used: it {SAYS[name.lower()]}. " + self._advice(
            name, self._use(name, found.sample)
        )

    def _refusal(self, problem: str, name: str, place: tuple[str, int], use: Guess | None) -> BadData:
        return BadData(problem, where=f"{place[0]}, row {place[1]}, {name}", remedy=self._advice(name, use))

    def _advice(self, name: str, use: Guess | None) -> str:
        there = self._settings.form != "auto" or bool(self._settings.fields or self._settings.joined)
        there = there or bool(self._settings.ignore)
        instead = ", in place of its form and fields" if there else ""
        to_use = ""
        if use is not None:
            why = "for method kto, " if ROW_FORMS.get(use.form) and "label" in ROW_FORMS[use.form].row.needs else ""
            to_use = f"To use it, {why}put this into dataset.yaml{instead}:\n{use.lines}\n"
        return f"{to_use}To ignore it, put this into dataset.yaml{instead}:\n{self._ignore(name)}"

    def _ignore(self, *names: str) -> str:
        settings = self._settings
        ignore = (*settings.ignore, *names)
        fields: dict[str, str | tuple[str, ...]] = {**dict(settings.fields), **dict(settings.joined)}
        return Guess(form=settings.form, fields=fields, ignore=ignore, turns=settings.turns).lines

    def _use(self, name: str, sample: Sequence[dict[str, Any]]) -> Guess | None:
        # What was learned in place of the pair is one of its answers.
        losing = ("messages", "conversations", "completion", "output") if name.lower() in _PAIR else ()
        labels = None
        if name.lower() in _LIKED and self._settings.labels is None:
            labels = guess_labels((row[name] for row in sample), name)
        for form, fields in _uses(name, sample[0]):
            found = try_out(sample, form, fields, self._settings, uses=name, losing=losing, labels=labels)
            if found is not None:
                return found
        return None


def _uses(name: str, row: dict[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    """Row forms that read the field ``name`` of ``row``, with their other fields mapped as other forms name them."""
    lower = name.lower()
    if lower in _LIKED:
        for conversation in ("messages", "conversations"):
            yield "messages/label", {"messages": conversation, "label": name}
        yield "unpaired_preference", {"label": name}
        yield "alpaca/label", {"label": name}
        if isinstance(row[name], str):
            yield "prompt/completion", {"prompt": "text", "completion": name}
        for form in GUESSED if isinstance(row[name], str) else ():
            yield form, {"kind": name}
    elif lower in _PAIR:
        for form in ("preference", "messages/pairs", "sharegpt/pairs", "alpaca/pairs"):
            yield form, {lower: name}
        yield "preference", {"chosen": "completion", lower: name}
        yield "alpaca/pairs", {"chosen": "output", lower: name}
    elif lower == WEIGHT:
        yield from ((form, {WEIGHT: name}) for form, way in ROW_FORMS.items() if way.form.weighed)
    elif lower in (*SYSTEM, "tools"):
        field = "tools" if lower == "tools" else "system"
        yield "system/messages", {field: name}
        yield "sharegpt", {field: name}
        yield "prompt/completion", {field: name}
        yield "prompt/completion", {"prompt": "instruction", "completion": "output", field: name}
