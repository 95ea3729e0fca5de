"""Calls whose function reads files of this machine: they are sent first."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ft_assets import api
from ft_assets.api import Asked
from ft_assets.remote.connection import Connection
from ft_assets.remote.sent import (
    AddDataset,
    AddRecipe,
    Document,
    EstimateFile,
    RecipeFile,
    Rows,
    Submit,
    WatchDataset,
)
from ft_resources.errors import BadRecipe, UserError
from ft_resources.said import first_of
from ft_resources.strict import parse_yaml, read_text

_HUB = "hub:"
Model = TypeVar("Model", bound=BaseModel)
_YAML = (".yaml", ".yml")


class Sending:
    """Sends files over ``connection``, and then asks by ``call`` (name, arguments, function)."""

    def __init__(self, connection: Connection, call: Callable[..., Any]) -> None:
        self._connection, self._call = connection, call

    def add_dataset(
        self,
        source: Sequence[str],
        name: str,
        *,
        policy: Path | None = None,
        validation: Sequence[Path] = (),
        holdout: Sequence[Path] = (),
    ) -> Any:
        with self._uploaded() as uploads:
            rows, warnings = uploads.rows(source, policy, validation, holdout)
            sent = _sent(AddDataset, name=name, rows=rows)
            added = self._call("add_dataset", sent.model_dump(mode="json"), api.add_dataset)
        return replace(added, warnings=(*warnings, *added.warnings))

    def watch_dataset(self, name: str, policy: Path) -> Any:
        sent = _sent(WatchDataset, name=name, policy=_document(policy))
        return self._call("watch_dataset", sent.model_dump(mode="json"), api.watch_dataset)

    def register_recipe(self, file: Path) -> Any:
        sent = AddRecipe(file=_recipe(file))
        return self._call("register_recipe", sent.model_dump(mode="json"), api.register_recipe)

    def estimate(self, dataset: str, recipe: str) -> Any:
        if not recipe.endswith(_YAML):
            return self._call("estimate", {"dataset": dataset, "recipe": recipe}, api.estimate)
        sent = _sent(EstimateFile, dataset=dataset, file=_recipe(Path(recipe)))
        return self._call("estimate_file", sent.model_dump(mode="json"), api.estimate)

    def submit(
        self,
        dataset: str,
        recipe: str = "",
        *,
        base: str = "",
        name: str = "",
        policy: Path | None = None,
        holdout: Sequence[Path] = (),
        max_gpu_hours: float | None = None,
        gates: Sequence[str] = (),
        key: str = "",
    ) -> Asked:
        file = _recipe(Path(recipe)) if recipe.endswith(_YAML) else None
        wish = _sent(
            Submit,
            recipe="" if file else recipe,
            file=file,
            base=base,
            name=name,
            max_gpu_hours=max_gpu_hours,
            gates=tuple(gates),
            key=key,
        )
        with self._uploaded() as uploads:
            are_rows = bool(name or base or Path(dataset).exists() or "/" in dataset)
            rows, warnings = uploads.rows([dataset] if are_rows else [], policy, (), holdout)
            wish = wish.model_copy(update={"rows": rows, "dataset": "" if are_rows else dataset})
            asked: Asked = self._call("submit", wish.model_dump(mode="json"), api.submit)
        return replace(asked, warnings=(*warnings, *asked.warnings))

    @contextmanager
    def _uploaded(self) -> Iterator["_Uploads"]:
        """Uploads that are removed once the call has its own copy."""
        uploads = _Uploads(self._connection)
        try:
            yield uploads
        finally:
            for each in uploads.ids:
                # The server removes it a day later otherwise.
                with suppress(UserError):
                    self._connection.remove(each)


class _Uploads:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.ids: list[str] = []

    def rows(
        self, source: Sequence[str], policy: Path | None, validation: Sequence[Path], holdout: Sequence[Path]
    ) -> tuple[Rows, list[str]]:
        """What was uploaded, and warnings about files that were left out."""
        warnings: list[str] = []
        ids = {
            role: self._all(given, warnings)
            for role, given in (("files", source), ("validation", validation), ("holdout", holdout))
        }
        return Rows(**ids, policy=_document(policy) if policy else None), warnings

    def _all(self, given: Sequence[str | Path], warnings: list[str]) -> tuple[str, ...]:
        found: list[str] = []
        for each in given:
            if str(each).startswith(_HUB):
                raise UserError(
                    "a split of the Hub is not read over the server's API",
                    where=str(each),
                    remedy="Download it and add its files, or name it as `source` in a dataset.yaml: ft dataset watch",
                )
            files, warning = api.source_files(Path(each))
            warnings += [warning] if warning else []
            for file in files:
                self.ids.append(self._connection.upload(file))
                found.append(self.ids[-1])
        return tuple(found)


def _sent(kind: type[Model], **values: Any) -> Model:
    """``kind`` of these values. Raises UserError for one that the server would refuse."""
    try:
        return kind(**values)
    except ValidationError as error:
        where, what = first_of(error)
        raise UserError(what, where=where, remedy="Correct it, and try again.") from error


def _document(path: Path, name: str = "") -> Document:
    return _sent(Document, name=name or path.name, text=read_text(path, str(path)))


def _recipe(path: Path) -> RecipeFile:
    """A recipe's file with the chat template that it names, if that is a file beside it."""
    recipe = _document(path)
    value = parse_yaml(recipe.text, str(path))
    named = value.get("chat_template") if isinstance(value, dict) else None
    if not isinstance(named, str) or not (path.parent / named).is_file():
        return RecipeFile(recipe=recipe)
    if not (path.parent / named).resolve().is_relative_to(path.parent.resolve()):
        raise BadRecipe(
            "this file is not in the recipe's folder",
            where=f"{path}, chat_template {named!r}",
            remedy="Copy it beside the recipe.",
        )
    return RecipeFile(recipe=recipe, template=_document(path.parent / named, named))
