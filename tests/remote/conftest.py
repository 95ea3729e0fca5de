"""``ft`` at a server: commands that have the server's address and a key, and neither store nor state of their own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
from fastapi import FastAPI
from typer.testing import CliRunner, Result

from ft_assets import api
from ft_assets.cli.main import app
from ft_assets.graph.orchestrator import Dagster
from ft_assets.server.app import api_app
from tests.cli import conftest as here
from tests.cli.conftest import forked as forked
from tests.cli.conftest import instance as instance
from tests.cli.conftest import made as made
from tests.cli.conftest import made_later as made_later
from tests.cli.conftest import pair as pair
from tests.cli.conftest import project as project
from tests.described_answers import answers_as_described
from tests.e2e.project import Project
from tests.server.conftest import access as access
from tests.server.conftest import url as url

Far = Callable[..., Result]


# Calls ``ft`` beside the store.
beside = here.ft


@pytest.fixture
def served(project: Project, access: api.Access, instance: dg.DagsterInstance) -> Iterator[FastAPI]:
    """The application; each of its answers has to be as it is described."""
    app = api_app(project.store, access, orchestrator=Dagster(instance))
    with answers_as_described(app):
        yield app


@pytest.fixture
def key(access: api.Access) -> Callable[..., str]:
    """Makes a key; its text."""

    def make(tenant: str = "acme", role: api.Role = "admin", name: str = "bea") -> str:
        return api.create_key(tenant, role=role, name=name, access=access, actor="root")[1]

    return make


@pytest.fixture
def far_as(url: str, key: Callable[..., str], tmp_path: Path) -> Callable[..., Far]:
    """Makes what calls ``ft`` at the server, as the holder of a key of its own, beside a place where no store is."""

    def make(tenant: str = "acme", role: api.Role = "admin", name: str = "bea") -> Far:
        nowhere = tmp_path / "nowhere"
        own = {"FT_STORE": str(nowhere), "FT_STATE": None, "XDG_CONFIG_HOME": str(tmp_path / "config")}
        settings = {**own, "FT_SERVER": url.removesuffix("/v1"), "FT_API_KEY": key(tenant, role, name)}

        def call(*arguments: object) -> Result:
            result = CliRunner(env=settings).invoke(app, [str(argument) for argument in arguments])
            assert not nowhere.exists()
            return result

        return call

    return make


@pytest.fixture
def far(far_as: Callable[..., Far]) -> Far:
    """Calls ``ft`` at the server, as an administrator of acme."""
    return far_as()
