"""Help is a phrase about the thing: each command, argument, option and setting has one, and none is a question."""

import re
from collections.abc import Iterator

import click
import pytest
import typer
from pydantic import BaseModel

from ft_assets.cli.main import app
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.settings.models import ModelsFile
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.servers import ServersFile
from ft_assets.settings.tenants import TenantsFile
from ft_resources.kubernetes.flavours import FlavoursFile
from ft_resources.kubernetes.settings import KubernetesSettings

QUESTION = re.compile(r"(What|Who|Whoever|Whose|Whom|Why|How|Which|Where)\b")
FILES = (Recipe, DatasetPolicy, TenantsFile, ServersFile, ModelsFile, KubernetesSettings, FlavoursFile)


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, f"{path} {name}")


def of_commands() -> Iterator[tuple[str, str]]:
    for path, command in commands(typer.main.get_command(app), "ft"):
        yield path, command.help or ""
        for parameter in command.params:
            yield f"{path} {parameter.name}", getattr(parameter, "help", None) or ""


def of_settings(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    schema = model.model_json_schema()
    for name, part in {model.__name__: schema, **schema.get("$defs", {})}.items():
        for field, about in part.get("properties", {}).items():
            yield f"{name}.{field}", about.get("description", "")


@pytest.mark.parametrize(
    "texts",
    [dict(of_commands()), *(dict(of_settings(each)) for each in FILES)],
    ids=["ft", *(m.__name__ for m in FILES)],
)
def test_help_is_there_and_no_question(texts: dict[str, str]) -> None:
    assert {place: text for place, text in texts.items() if not text or QUESTION.match(text)} == {}
