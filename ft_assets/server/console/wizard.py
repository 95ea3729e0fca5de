"""A new job in steps: rows and base, method, recipe, estimate, start. What was chosen travels in the forms."""

import secrets
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from ft_assets import api
from ft_assets.server.console.files import tenant_files
from ft_assets.server.console.rendering import page
from ft_assets.server.console.session import Fields, Member, Person
from ft_assets.server.context import Context, Ctx
from ft_assets.server.files import PREFIX
from ft_assets.server.names import JOB
from ft_assets.settings.catalogue.methods import METHODS
from ft_resources.errors import NotFound, UserError

router = APIRouter(prefix="/new")
_FILES = 100
# What a model of the catalogue can be asked for by jobs; other methods need a recipe.
_OF_MODELS = {"sft": "supervised", "dpo": "dpo"}
_NUMBERS = ("n_epochs", "batch_size", "learning_rate_multiplier", "beta")
_Choice = Annotated[str, Query(max_length=300)]


@dataclass(frozen=True, kw_only=True)
class Base:
    """A model of the catalogue, or a base that only registered recipes have; ``name`` is what forms call it."""

    name: str
    reference: str
    description: str
    offered: bool


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A registered recipe that may be used in place of the model's."""

    key: str
    method: str
    base: str
    description: str


@router.get("")
def wizard(
    request: Request,
    context: Ctx,
    person: Member,
    file: _Choice = "",
    base: _Choice = "",
    method: _Choice = "",
) -> Response:
    """The first step that is not answered yet."""
    files = tenant_files(context, person, "", _FILES)["data"]
    recipes = _recipes(context, person)
    bases = _bases(recipes)
    if not file or not base:
        return page(request, "new_base.html", files=files, bases=bases, file=file, base=base)
    found = next((each for each in bases if each.name == base), None)
    if found is None:
        raise NotFound(f"there is no base {base!r}", where="base", remedy="Choose one of the list.")
    shown = next((each for each in files if each["id"] == file), None)
    if shown is None:
        raise NotFound(f"there is no file {file!r}", where="file", remedy="Upload it first.")
    of_base = [each for each in recipes if each.base == found.reference]
    methods = [name for name in METHODS if (found.offered and name in _OF_MODELS) or _with(of_base, name)]
    chosen = {"file": shown, "base": found}
    if not method:
        return page(request, "new_method.html", methods=[(name, METHODS[name].what) for name in methods], **chosen)
    if method not in methods:
        raise NotFound(f"this base has no method {method!r}", where="method", remedy="Choose one of the list.")
    by_model = found.offered and method in _OF_MODELS
    return page(request, "new_recipe.html", method=method, by_model=by_model, recipes=_with(of_base, method), **chosen)


@router.post("/estimate")
def estimate(request: Request, context: Ctx, person: Member, fields: Fields) -> Response:
    """What the job would take, with the button that starts it."""
    asked = _asked(fields)
    found = api.estimate_job(person.identity.tenant, asked, actor=person.identity.actor, store=context.store)
    return page(request, "new_estimate.html", estimate=found, asked=asked, fields=fields, key=secrets.token_urlsafe(24))


@router.post("/start")
def start(context: Ctx, person: Member, fields: Fields) -> Response:
    """Ask for the job; a form that is sent twice is one job."""
    who, asked = person.identity, _asked(fields)
    key = f"console-{fields['key']}" if fields.get("key") else ""
    job, created = api.create_job(who.tenant, asked, actor=who.actor, key=key, store=context.store)
    if created:
        context.settle(job)
    return RedirectResponse(f"/console/jobs/{JOB}{job.id}", 303)


def _asked(fields: dict[str, str]) -> dict[str, Any]:
    """The fields of a job. Raises UserError for what is no number."""
    recipe, base = fields.get("recipe", ""), fields.get("base", "")
    given = {name: fields[name].strip() for name in _NUMBERS if fields.get(name, "").strip() and not recipe}
    hours = fields.get("max_gpu_hours", "").strip()
    return {
        "model": recipe or base,
        "training_file": fields.get("file", "").removeprefix(PREFIX),
        "validation_file": fields.get("validation", "").removeprefix(PREFIX),
        "method": "supervised" if recipe else _OF_MODELS.get(fields.get("method", ""), "supervised"),
        "hyperparameters": {name: _number(name, text) for name, text in given.items()},
        "suffix": fields.get("name", "").strip(),
        "recipe": recipe,
        "gates": tuple(line.strip() for line in fields.get("gates", "").splitlines() if line.strip()),
        "max_gpu_hours": _number("max_gpu_hours", hours) if hours else None,
    }


def _number(name: str, text: str) -> int | float:
    try:
        return int(text) if text.lstrip("+").isdecimal() else float(text)
    except ValueError:
        raise UserError(
            f"{text[:40]!r} is not a number", where=name.replace("_", " "), remedy="Write it as 3 or as 0.5."
        ) from None


def _recipes(context: Context, person: Person) -> list[Chosen]:
    """Those that a person registered: what a job got of its model is no choice beside the model."""
    found = api.list_recipes(tenant=person.identity.tenant, store=context.store)
    return [
        Chosen(key=each.key, method=each.method, base=each.base, description=each.description)
        for each in (stored.recipe for stored in found if not stored.of_model)
    ]


def _bases(recipes: list[Chosen]) -> list[Base]:
    models = api.offered_models().models
    known = {model.base for model in models.values()}
    more = sorted({recipe.base for recipe in recipes} - known)
    return [
        *(
            Base(name=name, reference=each.base, description=each.description, offered=True)
            for name, each in models.items()
        ),
        *(Base(name=each, reference=each, description="Base of a registered recipe.", offered=False) for each in more),
    ]


def _with(recipes: list[Chosen], method: str) -> list[Chosen]:
    return [each for each in recipes if each.method == method]
