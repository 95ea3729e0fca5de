"""A new job in steps: rows and base, method, recipe, estimate, start. What was chosen travels in the forms."""

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from ft_assets import api
from ft_assets.server.console.files import tenant_files
from ft_assets.server.console.rendering import page
from ft_assets.server.console.row_step import MOST_CHARACTERS, rows_of
from ft_assets.server.console.session import Fields, Member, Person
from ft_assets.server.context import Context, Ctx
from ft_assets.server.errors import status_of_error
from ft_assets.server.files import PREFIX, file_object
from ft_assets.server.job_bodies import MOST
from ft_assets.server.names import JOB
from ft_assets.settings.catalogue.methods import METHODS
from ft_resources.errors import NotFound, UserError

router = APIRouter(prefix="/new")
_FILES = 100
# What a model of the catalogue can be asked for by jobs; other methods need a recipe.
_OF_MODELS = {"sft": "supervised", "dpo": "dpo", "kto": "kto", "cpt": "cpt"}
_STEPS = ("file", "rows", "kind", "base", "method")
_NUMBERS = ("n_epochs", "batch_size", "learning_rate_multiplier", "beta")
_FILLED = (*_NUMBERS, "recipe", "name", "gates", "max_gpu_hours")
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
    rows: Annotated[str, Query(max_length=MOST_CHARACTERS)] = "",
    kind: _Choice = "",
    base: _Choice = "",
    method: _Choice = "",
    choose: _Choice = "",
) -> Response:
    """The first step that is not answered yet; ``choose`` asks for another file."""
    given = {"file": file, "rows": rows, "kind": kind, "base": base, "method": method}
    if not file or choose:
        files = tenant_files(context, person, "", _FILES)["data"]
        return page(request, "new_file.html", files=files, file=file)
    recipes = _recipes(context, person)
    if not base:
        shown = _file(context, person, file)
        return page(request, "new_base.html", file=shown, bases=_bases(recipes), chosen=given, base="")
    if not method:
        steps = _chosen(context, person, given, recipes)
        methods = [(name, METHODS[name].what) for name in steps.methods]
        return page(request, "new_method.html", file=steps.file, base=steps.base, methods=methods, chosen=given)
    return _recipe_page(request, context, person, given)


@router.post("/recipe")
def recipe(request: Request, context: Ctx, person: Member, fields: Fields) -> Response:
    """The step before the estimate again, with what was filled in."""
    return _recipe_page(request, context, person, fields)


@router.post("/estimate")
def estimate(request: Request, context: Ctx, person: Member, fields: Fields) -> Response:
    """What the job would take, with the button that starts it."""

    def estimated() -> Response:
        asked = _asked(fields)
        found = api.estimate_job(person.identity.tenant, asked, actor=person.identity.actor, store=context.store)
        key = secrets.token_urlsafe(24)
        return page(request, "new_estimate.html", estimate=found, asked=asked, fields=fields, key=key)

    return _or_recipe_page(request, context, person, fields, estimated)


@router.post("/start")
def start(request: Request, context: Ctx, person: Member, fields: Fields) -> Response:
    """Ask for the job; a form that is sent twice is one job."""

    def started() -> Response:
        who, asked = person.identity, _asked(fields)
        key = f"console-{fields['key']}" if fields.get("key") else ""
        job, created = api.create_job(who.tenant, asked, actor=who.actor, key=key, store=context.store)
        if created:
            context.settle(job)
        return RedirectResponse(f"/console/jobs/{JOB}{job.id}", 303)

    return _or_recipe_page(request, context, person, fields, started)


@dataclass(frozen=True, kw_only=True)
class _Steps:
    """The choices so far, and the methods that fit them."""

    file: dict[str, Any]
    base: Base
    methods: list[str]
    recipes: list[Chosen]


def _chosen(context: Context, person: Person, given: dict[str, str], recipes: list[Chosen]) -> _Steps:
    """Raises NotFound for a file or base that is not there."""
    base = next((each for each in _bases(recipes) if each.name == given.get("base")), None)
    if base is None:
        raise NotFound(f"there is no base {given.get('base')!r}", where="base", remedy="Choose one of the list.")
    of_base, kind = [each for each in recipes if each.base == base.reference], given.get("kind", "")
    methods = [
        name
        for name, method in METHODS.items()
        if kind in ("", method.form.name) and ((base.offered and name in _OF_MODELS) or _with(of_base, name))
    ]
    return _Steps(file=_file(context, person, given.get("file", "")), base=base, methods=methods, recipes=of_base)


def _recipe_page(
    request: Request, context: Context, person: Person, given: dict[str, str], error: UserError | None = None
) -> Response:
    """The step of the recipe, filled in as ``given``; with the ``error`` that it led to."""
    steps, method = _chosen(context, person, given, _recipes(context, person)), given.get("method", "")
    if method not in steps.methods:
        raise NotFound(f"this base has no method {method!r}", where="method", remedy="Choose one of the list.")
    return page(
        request,
        "new_recipe.html",
        code=status_of_error(error) if error else 200,
        file=steps.file,
        base=steps.base,
        method=method,
        by_model=steps.base.offered and method in _OF_MODELS,
        recipes=_with(steps.recipes, method),
        chosen={name: given.get(name, "") for name in _STEPS},
        filled={**dict.fromkeys(_FILLED, ""), **given},
        error=error,
    )


def _or_recipe_page(
    request: Request, context: Context, person: Person, fields: dict[str, str], does: Callable[[], Response]
) -> Response:
    """The result of ``does``; if it is refused, the recipe step again, with all choices kept."""
    try:
        return does()
    except UserError as error:
        if status_of_error(error) >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise
        try:
            return _recipe_page(request, context, person, fields, error)
        except NotFound:
            # What was chosen is no longer there.
            raise error from None


def _file(context: Context, person: Person, file: str) -> dict[str, Any]:
    """Raises NotFound."""
    return file_object(api.find_file(person.identity.tenant, file.removeprefix(PREFIX), store=context.store))


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
        "rows": rows_of(fields["rows"]) if fields.get("rows") else {},
    }


def _number(name: str, text: str) -> int | float:
    with suppress(ValueError):
        number = int(text) if text.lstrip("+").isdecimal() else float(text)
        # Those of the API, within which NaN is not either.
        if abs(number) <= MOST:
            return number
    raise UserError(
        f"{text[:40]!r} is not a number that a job takes", where=name.replace("_", " "), remedy="Write it as 3 or 0.5."
    )


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
