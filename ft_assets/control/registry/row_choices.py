"""How rows are read, as choices: what each column holds, and what the words of labels and turns mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ft_assets.settings.catalogue.forms import GUESSED, ROW_FORMS
from ft_assets.settings.dataset.forms import KIND, WEIGHT, FormSettings
from ft_assets.settings.dataset.policy import JOINED, DatasetPolicy
from ft_assets.settings.dataset.spelling import LabelSettings, TurnSettings, folded
from ft_assets.workers.datasets.forms.convert import form_of
from ft_assets.workers.datasets.forms.joined import as_mapped
from ft_assets.workers.datasets.forms.reasons import RowProblem
from ft_assets.workers.datasets.forms.turns import ROLES, SHAREGPT_ROLES, TURN_FIELDS
from ft_assets.workers.datasets.forms.unpaired import liked
from ft_assets.workers.datasets.forms.wording import guess_labels, guess_turns
from ft_resources.errors import BadData
from ft_resources.strict import parse_strict

_MOST_COLUMNS, _MOST_WORDS = 100, 20
_SHAREGPT = ("from", "value")
IGNORE = "ignore"
# With more bad rows than good ones, the rows are read in a wrong way.
_MOST_DROPPED = 0.5


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The possible and the current choices for some rows.

    Args:
        columns: the field of a form that each of the rows' columns holds; "" for one that is not used.
        labels: whether each word of the column with the labels means that people liked the answer; None: neither.
        turn_fields: ``role``, ``content``, ``ignore`` or "" for each field of the turns in the column with the
            conversations; "" for one that is read as it is.
        speakers: the role of each word that their turns have for one; "" for one that has none.
        drops: whether rows that cannot be used are left out, and do not refuse the file.
    """

    columns: Mapping[str, str]
    labels: Mapping[str, bool | None]
    turn_fields: Mapping[str, str]
    speakers: Mapping[str, str]
    drops: bool

    @property
    def label(self) -> str:
        """The column with the labels; "" if there is none."""
        return self._column("label")

    @property
    def talk(self) -> str:
        """The column with the conversations; "" if there is none."""
        return self._column("messages", "conversations")

    @property
    def speaker(self) -> str:
        """The field of the turns that says who speaks; "" if there is none."""
        return next((name for name, use in self.turn_fields.items() if use == "role"), "")

    def _column(self, *fields: str) -> str:
        return next((name for name, field in self.columns.items() if field in fields), "")


def choices_of(policy: DatasetPolicy, rows: Sequence[dict[str, Any]]) -> Choices:
    """The choices in ``policy`` for ``rows``, the first of a file."""
    mapped = {
        source: field
        for field, sources in policy.fields.items()
        if field != "ignore"
        for source in ([sources] if isinstance(sources, str) else sources)
    }
    known = _known(policy, rows) - {*mapped.values()}
    ignored = policy.fields.get("ignore", ())
    names = [*dict.fromkeys(name for row in rows for name in row)][:_MOST_COLUMNS]
    columns = {name: mapped.get(name) or (name if name in known and name not in ignored else "") for name in names}
    chosen = Choices(columns=columns, labels={}, turn_fields={}, speakers={}, drops=policy.on_bad_row == "drop")
    fields, speakers = _turns(rows, chosen.talk, policy.turns or TurnSettings())
    labels = _labels(rows, chosen.label, policy.labels)
    return replace(chosen, labels=labels, turn_fields=fields, speakers=speakers)


def with_words(chosen: Choices, before: Choices, rows: Sequence[dict[str, Any]]) -> Choices:
    """``chosen``, with the words of labels and turns where another column than ``before`` holds them, and a guess at
    what they mean."""
    label, talk = chosen.label, chosen.talk
    if label != before.label:
        words = guess_labels((row.get(label) for row in rows), label)
        chosen = replace(chosen, labels=_labels(rows, label, words))
    if talk != before.talk:
        talks = [row[talk] for row in rows if _is_talk(row.get(talk))]
        fields, speakers = _turns(rows, talk, guess_turns(talks) or TurnSettings())
        return replace(chosen, turn_fields=fields, speakers=speakers)
    if talk and chosen.speaker != before.speaker:
        chosen = replace(chosen, speakers=_speakers(_all_turns(rows, talk), chosen.speaker, "", {}))
    return chosen


def _is_talk(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(turn, dict) for turn in value)


def policy_of_choices(chosen: Choices, before: DatasetPolicy) -> DatasetPolicy:
    """The policy that reads rows as ``chosen``; ``before`` is the one whose choices were changed.

    Raises BadData, in terms of the choices, where they make no example, and BadRecipe.
    """
    mapped: dict[str, list[str]] = {}
    for column, field in chosen.columns.items():
        if field:
            mapped.setdefault(field, []).append(column)
    several = next((field for field, names in mapped.items() if len(names) > 1 and field not in JOINED), "")
    if several:
        raise BadData(
            f"{' and '.join(map(repr, mapped[several]))} cannot both be {several}",
            where="columns",
            remedy="Choose it for one column. Several may be the prompt, the answer or another text: they are joined.",
        )
    form = next((name for name in _in_order() if _holds(name, mapped)), "")
    if not form:
        held = f"{', '.join(mapped)} alone" if mapped else "columns that are not used"
        raise BadData(
            f"{held} make no example",
            where="columns",
            remedy="Choose a prompt and an answer; with a label, if people judged the answer; a prompt with a better "
            "and a worse answer; a conversation; or a text.",
        )
    fields: dict[str, str | tuple[str, ...]] = {
        field: names[0] if len(names) == 1 else tuple(names)
        for field, names in mapped.items()
        if names != [field] or field == WEIGHT
    }
    if ignored := tuple(column for column, field in chosen.columns.items() if not field):
        fields["ignore"] = ignored
    policy = before.model_copy(
        update={
            "form": form,
            "fields": fields,
            "labels": _label_settings(chosen.labels, before.labels) if "label" in mapped else None,
            "turns": _turn_settings(chosen),
            "on_bad_row": "drop" if chosen.drops else "reject",
            "max_dropped_share": _MOST_DROPPED if chosen.drops else DatasetPolicy().max_dropped_share,
        }
    )
    FormSettings.of(policy)
    return policy


def _in_order() -> Sequence[str]:
    return [*GUESSED, *(name for name in ROW_FORMS if name not in GUESSED)]


def _holds(form: str, mapped: Mapping[str, Any]) -> bool:
    way = ROW_FORMS[form]
    beside = {KIND, WEIGHT} if way.form.weighed else {KIND}
    return {*way.row.needs} <= mapped.keys() <= {*way.row.needs, *way.row.may_have, *beside}


def _known(policy: DatasetPolicy, rows: Sequence[dict[str, Any]]) -> set[str]:
    """The fields that are read under their own names."""
    settings, forms = FormSettings.of(policy), set()
    for row in rows:
        try:
            forms.add(form_of(as_mapped(row, settings), settings))
        except RowProblem:
            continue
    ways = [ROW_FORMS[name].row for name in forms]
    return {*([KIND] if settings.reads_kind else []), *(name for way in ways for name in (*way.needs, *way.may_have))}


def _labels(rows: Sequence[dict[str, Any]], column: str, words: LabelSettings | None) -> dict[str, bool | None]:
    values = [row.get(column) for row in rows] if column else []
    said: dict[str, bool | None] = {}
    for value in values:
        if isinstance(value, str | int) and len(said) < _MOST_WORDS:
            word = folded(value)
            mine = None if words is None or isinstance(value, bool) else words.says(value)
            said.setdefault(word, liked(value) if mine is None else mine)
    return said


def _label_settings(said: Mapping[str, bool | None], before: LabelSettings | None) -> LabelSettings | None:
    if all(meant is None or meant == liked(word) for word, meant in said.items()) and any(
        meant is not None for meant in said.values()
    ):
        return None
    # The first rows may have one of the two words only.
    up, down = (
        [
            *(word for word, each in said.items() if each is meant),
            *(word for word in map(folded, words) if word not in said),
        ]
        for meant, words in ((True, before.liked if before else ()), (False, before.disliked if before else ()))
    )
    if not said:
        raise BadData(
            "the values of the label are neither words nor whole numbers",
            where="columns",
            remedy="Choose another column as the label, write it as 1 and 0, or choose no label.",
        )
    if not up or not down:
        raise BadData(
            f"no value of the label means {'good' if not up else 'bad'}",
            where="columns",
            remedy="Choose what each of its values means. Without both, choose no label.",
        )
    return parse_strict(LabelSettings, {"liked": up, "disliked": down}, "columns")


def _turns(
    rows: Sequence[dict[str, Any]], column: str, settings: TurnSettings
) -> tuple[dict[str, str], dict[str, str]]:
    """The use of each field of the turns, except standard ones, and each speaker's role."""
    turns = _all_turns(rows, column)
    names = dict.fromkeys(name for turn in turns for name in turn)
    role, content = (
        next((name for name in (given, usual) if name in names), "")
        for given, usual in zip((settings.role, settings.content), _SHAREGPT, strict=True)
    )
    uses = {role: "role", content: "content", **dict.fromkeys(settings.ignore, IGNORE)}
    fields = {name: uses.get(name, "") for name in names if name in uses or name not in TURN_FIELDS}
    return dict(list(fields.items())[:_MOST_WORDS]), _speakers(turns, role, content, settings.roles)


def _all_turns(rows: Sequence[dict[str, Any]], column: str) -> list[dict[str, Any]]:
    talks = [row[column] for row in rows if isinstance(row.get(column), list)]
    return [turn for talk in talks for turn in talk if isinstance(turn, dict)]


def _speakers(turns: Sequence[dict[str, Any]], role: str, content: str, roles: Mapping[str, str]) -> dict[str, str]:
    words = dict.fromkeys(turn[role] for turn in turns if isinstance(turn.get(role), str))
    known = {**_known_speakers(role, content), **roles}
    return {word: known.get(word, "") for word in list(words)[:_MOST_WORDS]}


def _known_speakers(role: str, content: str) -> Mapping[str, str]:
    """Words of the turns' own that need no setting."""
    return SHAREGPT_ROLES if (role, content) == _SHAREGPT else {word: word for word in ROLES}


def _turn_settings(chosen: Choices) -> TurnSettings | None:
    """None where turns are read so without a setting."""
    fields = chosen.turn_fields.items()
    role, content = (next((name for name, use in fields if use == wanted), wanted) for wanted in ("role", "content"))
    known = _known_speakers(role, content)
    roles = {word: meant for word, meant in chosen.speakers.items() if meant and known.get(word) != meant}
    ignore = tuple(name for name, use in fields if use == IGNORE)
    usual = (role, content) in (_SHAREGPT, ("role", "content"))
    if usual and not roles and not ignore:
        return None
    # ShareGPT's words are no words of turns with a role.
    own = {word: meant for word, meant in chosen.speakers.items() if meant and word != meant}
    return parse_strict(TurnSettings, {"role": role, "content": content, "roles": own, "ignore": ignore}, "columns")
