"""What an upload's own words for speakers and thumbs probably mean: guessed from the words and their values."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ft_assets.settings.dataset.spelling import LabelSettings, Role, TurnSettings, folded
from ft_assets.workers.datasets.forms.turns import TURN_FIELDS

_ROLE_FIELDS = ("role", "from", "speaker", "sender", "author", "who", "by", "user", "participant", "name", "type")
_TEXT_FIELDS = ("content", "value", "text", "body", "message", "msg", "utterance", "said", "reply")
_SPEAKERS: Mapping[str, Role] = {
    **dict.fromkeys(("assistant", "agent", "bot", "ai", "gpt", "model", "chatbot", "chatgpt"), "assistant"),
    **dict.fromkeys(("support", "advisor", "operator", "helpdesk", "staff"), "assistant"),
    **dict.fromkeys(("user", "human", "customer", "client", "visitor", "guest", "caller", "person"), "user"),
    **dict.fromkeys(("system", "instructions"), "system"),
    "tool": "tool",
}
_MAX_ROLES, _MAX_ROLE, _MAX_IGNORED = 6, 40, 20
_THUMBS = (
    *(("up", "down"), ("👍", "👎"), ("thumbs_up", "thumbs_down"), ("thumbs up", "thumbs down")),
    *(("thumbsup", "thumbsdown"), ("like", "dislike"), ("liked", "disliked")),
)
# Under a name such as "label" these may be classes, of a review's sentiment for example.
_OPINIONS = (
    *(("good", "bad"), ("yes", "no"), ("positive", "negative"), ("helpful", "unhelpful"), ("helpful", "not helpful")),
    *(("helpful", "not_helpful"), ("1", "-1"), ("+1", "-1")),
)
_OF_CLASSES = ("label", "kto_tag")
_PLAIN = {"true": True, "1": True, "false": False, "0": False}


def guess_turns(conversations: Iterable[Sequence[dict[str, Any]]]) -> TurnSettings | None:
    """The names of fields and roles in the turns of ``conversations``; None if they are not clear."""
    talks = [talk for talk in conversations if talk]
    turns = [turn for talk in talks for turn in talk]
    names = list(dict.fromkeys(name for turn in turns for name in turn))
    texts = [name for name in names if all(isinstance(turn.get(name), str) for turn in turns)]
    role = next((name for name in _by(texts, _ROLE_FIELDS) if _are_roles([turn[name] for turn in turns])), "")
    said = [name for name in texts if name != role]
    if not role or not said:
        return None
    content = (_by(said, _TEXT_FIELDS) or [max(said, key=lambda name: sum(len(turn[name]) for turn in turns))])[0]
    roles = _roles([[turn[role] for turn in talk] for talk in talks])
    # What turns are read with is not lost without a word: the guess has to read it.
    ignore = tuple(name for name in names if name not in (role, content, *TURN_FIELDS))
    if roles is None or len(ignore) > _MAX_IGNORED:
        return None
    return TurnSettings(role=role, content=content, roles=roles, ignore=ignore)


def _by(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """The ``names`` that are in ``known``, in the order of ``known``."""
    return sorted((name for name in names if name.lower() in known), key=lambda name: known.index(name.lower()))


def _are_roles(values: Sequence[str]) -> bool:
    """Whether all turns have only a few short words there, as for roles and not for people's names."""
    different = {*values}
    return len(different) <= _MAX_ROLES and all(value.isprintable() and len(value) <= _MAX_ROLE for value in different)


def _roles(talks: Sequence[Sequence[str]]) -> dict[str, Role] | None:
    """The role of each speaker that is not called by it; None if a role is not clear."""
    speakers = list(dict.fromkeys(speaker for talk in talks for speaker in talk))
    found = {speaker: _SPEAKERS[speaker.lower()] for speaker in speakers if speaker.lower() in _SPEAKERS}
    unknown = [speaker for speaker in speakers if speaker not in found]
    missing: list[Role] = [role for role in ("user", "assistant") if role not in found.values()]
    if len(unknown) > len(missing) or missing[len(unknown) :]:
        return None
    # Whoever speaks first asks.
    found |= dict(zip(unknown, missing, strict=True))
    return {speaker: role for speaker, role in found.items() if speaker != role}


def is_liked(value: Any, field: str) -> bool | None:
    """What a label in the upload's field ``field`` says in any of the usual words; None if it says neither."""
    if not isinstance(value, bool | int | str):
        return None
    text = folded(int(value) if isinstance(value, bool) else value)
    if text in _PLAIN:
        return _PLAIN[text]
    return next((text == up for up, down in _pairs(field) if text in (up, down)), None)


def guess_labels(values: Iterable[Any], field: str) -> LabelSettings | None:
    """The words for a thumb up and down among ``values``, each with its counterpart; None if no setting is needed."""
    said = {folded(value) for value in values if isinstance(value, int | str) and not isinstance(value, bool)}
    pairs = [pair for pair in _pairs(field) if said & ({*pair} - {*_PLAIN})]
    if not pairs:
        return None
    liked, disliked = ({*words} for words in zip(*pairs, strict=True))
    return LabelSettings(liked=tuple(sorted(liked)), disliked=tuple(sorted(disliked)))


def _pairs(field: str) -> Sequence[tuple[str, str]]:
    return _THUMBS if field.lower() in _OF_CLASSES else (*_THUMBS, *_OPINIONS)
