"""The first step of a new job: how the rows of a file are read, with what each column holds to choose."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import orjson
from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from ft_assets import api
from ft_assets.api import Choices, FirstLook
from ft_assets.server.console.failures import by_script
from ft_assets.server.console.rendering import page
from ft_assets.server.console.session import Member
from ft_assets.server.context import Ctx
from ft_assets.server.files import PREFIX, file_object
from ft_resources.errors import BadData

router = APIRouter(prefix="/new")
MOST_CHARACTERS = 8000
"""Of how rows are read, as addresses carry it."""
_USES = {
    "prompt": "prompt: what is asked",
    "completion": "answer: what the model learns to write",
    "system": "system prompt",
    "chosen": "better answer",
    "rejected": "worse answer",
    "label": "label: whether people liked the answer",
    "messages": "conversation: a list of turns",
    "text": "text: all of it is trained on",
    "tools": "tool definitions",
    "kind": "topic: scores are shown by it",
    "weight": "weight of the row",
    "": "not used",
}
_LIKED: Mapping[str, bool | None] = {"good": True, "bad": False, "": None}
_TURN_USES = {"role": "speaker", "content": "text", "": "unchanged", api.IGNORE: "not used"}
_SPEAKERS = {"user": "user", "assistant": "assistant: trained on", "system": "system", "tool": "tool", "": "unknown"}


@router.get("/rows")
async def rows(request: Request, context: Ctx, person: Member) -> Response:
    """How the rows are read; with ``next``, the step after it, if they can be."""
    given = dict(request.query_params)
    tenant, file_id = person.identity.tenant, given.get("file", "").removeprefix(PREFIX)

    def look() -> FirstLook:
        asked = any(name.startswith("c") and name[1:].isdigit() for name in given)
        return api.look_at_file(
            tenant,
            file_id,
            rows=rows_of(given["rows"]) if given.get("rows") else None,
            choose=(lambda choices: _chosen(choices, given)) if asked else None,
            store=context.store,
        )

    found = await context.uploads.run(tenant, look)
    if "next" in given and can_go_on(found):
        said = json.dumps(api.reading_of(found.policy), ensure_ascii=False, separators=(",", ":"))
        if len(said) > MOST_CHARACTERS:
            raise BadData(
                "the file has too many columns for this form",
                where="columns",
                remedy="Upload a file with the columns that are used.",
            )
        asked = {"file": f"{PREFIX}{file_id}", "rows": said, "kind": found.kind}
        return RedirectResponse(f"/console/new?{urlencode(asked)}", 303)
    shown = file_object(api.find_file(tenant, file_id, store=context.store))
    values = {"file": shown, "look": found, "name": shown["filename"], **_choices(found), "rows": given.get("rows", "")}
    template = "fragments/rows.html" if by_script(request) else "new_rows.html"
    return page(request, template, pressed="next" in given, can_go_on=can_go_on(found), **values)


def rows_of(text: str) -> dict[str, Any]:
    """How rows are read, from an address or a form. Raises BadData for anything else."""
    try:
        found = orjson.loads(text[: MOST_CHARACTERS + 1])
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BadData(
            "the choices of columns are damaged", where="rows", remedy="Go back to the file, and choose again."
        )
    return found


def can_go_on(look: FirstLook) -> bool:
    """Whether a job could read the rows, as far as that is known."""
    if look.later:
        return True
    drops = look.choices is not None and look.choices.drops
    return bool(look.kind) and not look.refused and (drops or not look.bad_rows)


def _chosen(choices: Choices, given: Mapping[str, str]) -> Choices:
    """``choices`` with those of a form: ``c3`` says what the fourth column holds. Words of labels and turns count only
    while the columns are those that they were shown for."""
    names = list(choices.columns)
    columns = {name: given.get(f"c{place}", choices.columns[name]) for place, name in enumerate(names)}
    chosen = replace(
        choices, columns={name: use if _is_use(use) else "" for name, use in columns.items()}, drops="drops" in given
    )
    if chosen.label and given.get("label_of") == str(names.index(chosen.label)):
        labels = {word: _LIKED.get(given.get(f"l{place}", "")) for place, word in enumerate(choices.labels)}
        chosen = replace(chosen, labels=labels)
    if chosen.talk and given.get("talk_of") == str(names.index(chosen.talk)):
        fields = {word: given.get(f"t{place}", "") for place, word in enumerate(choices.turn_fields)}
        fields = {word: use if use in _TURN_USES else "" for word, use in fields.items()}
        chosen = replace(chosen, turn_fields=fields)
        if chosen.speaker and given.get("speaker_of") == str([*fields].index(chosen.speaker)):
            speakers = {word: given.get(f"s{place}", "") for place, word in enumerate(choices.speakers)}
            chosen = replace(
                chosen, speakers={word: role if role in _SPEAKERS else "" for word, role in speakers.items()}
            )
    return chosen


def _is_use(text: str) -> bool:
    return (len(text) <= 40 and text.replace("_", "").isalpha()) or not text


def _choices(look: FirstLook) -> dict[str, Any]:
    """Their values for the templates."""
    choices = look.choices
    if choices is None:
        return {"columns": []}
    names = list(choices.columns)
    # What a form calls its fields is offered where a column holds one.
    more = {use: use for use in choices.columns.values() if use not in _USES}
    values = [[row[place] for row in look.table] for place in range(len(names))]
    return {
        "columns": [(name, choices.columns[name], values[place]) for place, name in enumerate(names)],
        "uses": {**more, **_USES},
        "liked": {word: {True: "good", False: "bad", None: ""}[meant] for word, meant in choices.labels.items()},
        "turn_uses": _TURN_USES,
        "roles": _SPEAKERS,
        "label_of": names.index(choices.label) if choices.label else "",
        "speaker_of": [*choices.turn_fields].index(choices.speaker) if choices.speaker else "",
        "talk_of": names.index(choices.talk) if choices.talk else "",
    }
