"""Calls of functions that read files: uploads and texts are laid out in a folder of their own, for that call only."""

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response

from ft_assets import api
from ft_assets.api import Identity
from ft_assets.remote.calls import PREFIX
from ft_assets.remote.sent import AddDataset, AddRecipe, Document, EstimateFile, RecipeFile, Rows, Submit, WatchDataset
from ft_assets.server.calls import described, own_arguments, slowly
from ft_assets.server.confined import dataset_key, dataset_name, recipe_key
from ft_assets.server.context import Context, Member, Viewer, context_of
from ft_assets.server.files import PREFIX as FILE
from ft_assets.server.key_first import KeyFirst
from ft_assets.settings.keys import RecipeKey
from ft_resources.errors import BadRecipe, UserError
from ft_resources.hub import HuggingFaceHub
from ft_resources.strict import parse_yaml

router = APIRouter(prefix=PREFIX, route_class=KeyFirst)
_REACHED = ("hub:", "folder:sha256:", "artifact:")


@dataclass(frozen=True, kw_only=True)
class _Laid:
    """A call's files, laid out below ``folder``."""

    context: Context
    caller: Identity
    folder: Path

    def files(self, ids: Sequence[str], role: str) -> list[Path]:
        """Copies of uploads; each has a folder, as several may have one name."""
        below = self.folder / role
        below.mkdir()
        return [
            api.fetch_file(
                self.caller.tenant, each.removeprefix(FILE), below / f"{number:05}", store=self.context.store
            )
            for number, each in enumerate(ids)
        ]

    def document(self, sent: Document | None) -> Path | None:
        if sent is None:
            return None
        path = self.folder / "sent" / sent.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(sent.text, encoding="utf-8")
        return path

    def recipe(self, sent: RecipeFile) -> Path:
        """A recipe's file. Raises BadRecipe for one of another tenant, and for a base that is a folder."""
        value = parse_yaml(sent.recipe.text, sent.recipe.name)
        named = value if isinstance(value, dict) else {}
        require_reached(str(named.get("base", "")), sent.recipe.name)
        if isinstance(named.get("key"), str) and RecipeKey.parse(named["key"]).tenant != self.caller.tenant:
            raise BadRecipe(
                f"{named['key']} is not a recipe of {self.caller.tenant}",
                where=f"{sent.recipe.name}, key",
                remedy=f"Write it as {self.caller.tenant}.NAME.vN.",
            )
        self.document(sent.template)
        path = self.document(sent.recipe)
        assert path is not None
        return path

    def rows(self, sent: Rows) -> dict[str, Any]:
        """Arguments of ``add_dataset``."""
        roles = {"source": sent.files, "validation": sent.validation, "holdout": sent.holdout}
        laid = {role: self.files(ids, role) for role, ids in roles.items()}
        return {**laid, "policy": self.document(sent.policy)}


@contextmanager
def laid_out(context: Context, caller: Identity) -> Iterator[_Laid]:
    """A folder for the files of a call; errors name them as their sender did."""
    with tempfile.TemporaryDirectory(prefix="ft-call-") as folder:
        try:
            yield _Laid(context=context, caller=caller, folder=Path(folder))
        except UserError as error:
            here = re.compile(rf"{re.escape(folder)}/((source|validation|holdout)/\d+/|sent/)?")
            error.what, error.where = here.sub("", error.what), here.sub("", error.where)
            raise


def require_reached(base: str, where: str) -> None:
    """Raise BadRecipe for a base that is a folder: it would be one of the server's."""
    if base and not base.startswith(_REACHED):
        raise BadRecipe(
            "base: a folder cannot be sent to the server",
            where=where,
            remedy="Name hub:ORG/NAME@REVISION, or what a recipe of the server stands on: ft recipe show KEY "
            "(lock.source).",
        )


def _nobodys_hub() -> HuggingFaceHub:
    # With the platform's own token a tenant would read what is the platform's.
    return HuggingFaceHub(token=False)


def _call(
    function: Callable[..., Any], request: Request, caller: Identity, asked: Any, arguments: Callable[[_Laid], Any]
) -> Response:
    """Call ``function`` with what ``arguments`` makes of the files."""
    context = context_of(request)

    def carried_out() -> Any:
        with laid_out(context, caller) as laid:
            return function(**arguments(laid), **own_arguments(function, context, caller))

    return slowly(request, caller, function, asked, carried_out)


@router.post("/add_dataset", responses=described(api.add_dataset, slow=True))
def add_dataset(asked: AddDataset, request: Request, caller: Member) -> Response:
    """Add uploaded files as the next version of a dataset."""
    name = dataset_name(caller, asked.name)
    return _call(api.add_dataset, request, caller, asked, lambda laid: {"name": name, **laid.rows(asked.rows)})


@router.post("/watch_dataset", responses=described(api.watch_dataset, slow=True))
def watch_dataset(asked: WatchDataset, request: Request, caller: Member) -> Response:
    """Take new versions of a dataset from the source in its dataset.yaml."""
    name = dataset_name(caller, asked.name)
    return _call(
        api.watch_dataset, request, caller, asked, lambda laid: {"name": name, "policy": laid.document(asked.policy)}
    )


@router.post("/register_recipe", responses=described(api.register_recipe, slow=True))
def register_recipe(asked: AddRecipe, request: Request, caller: Member) -> Response:
    """Register a recipe of the tenant, and lock its base."""
    return _call(
        api.register_recipe,
        request,
        caller,
        asked,
        lambda laid: {"file": laid.recipe(asked.file), "hub": _nobodys_hub()},
    )


@router.post("/estimate_file", responses=described(api.estimate, slow=True))
def estimate_file(asked: EstimateFile, request: Request, caller: Viewer) -> Response:
    """What a training with a recipe that nobody registered would take."""
    request.state.reads = True
    key = dataset_key(caller, asked.dataset)
    return _call(api.estimate, request, caller, asked, lambda laid: {"dataset": key, "recipe": laid.recipe(asked.file)})


@router.post("/submit", responses=described(api.submit, slow=True))
def submit(asked: Submit, request: Request, caller: Member) -> Response:
    """Record that an adapter is wanted of a dataset version or of uploaded files."""

    def arguments(laid: _Laid) -> dict[str, Any]:
        require_reached(asked.base, "base")
        wish: dict[str, Any] = {
            "base": asked.base,
            "max_gpu_hours": asked.max_gpu_hours,
            "gates": asked.gates,
            "key": asked.key,
            "origin": "cli",
            "hub": _nobodys_hub(),
        }
        wish["recipe"] = laid.recipe(asked.file) if asked.file else asked.recipe
        if asked.recipe:
            wish["recipe"] = recipe_key(laid.context, caller, asked.recipe)
        rows = laid.rows(asked.rows)
        files, policy, holdout = rows["source"], rows["policy"], rows["holdout"]
        if not files:
            # Whatever belongs to rows is refused beside a version.
            return {**wish, "dataset": dataset_key(caller, asked.dataset), "policy": policy, "holdout": holdout}
        source = files[0] if len(files) == 1 else laid.folder / "source"
        name = dataset_name(caller, asked.name)
        if asked.base and not name:
            name = api.name_of_first_try(files[0].name, caller.tenant)
        return {**wish, "dataset": source, "name": name, "policy": policy, "holdout": holdout}

    return _call(api.submit, request, caller, asked, arguments)
