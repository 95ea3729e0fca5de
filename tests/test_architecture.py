"""The rules of imports that `lint-imports` cannot say: see ``[tool.importlinter]`` in pyproject.toml for the others."""

import ast
import tomllib

import pytest

from tools.architecture import HEAVY, PACKAGES, ROOT, Sources


@pytest.fixture(scope="module")
def sources() -> Sources:
    return Sources()


def test_the_project_is_imported_inside_functions_only_for_a_heavy_library(sources: Sources) -> None:
    assert sources.needless == []


def test_the_code_location_loads_no_heavy_library_but_dagster(sources: Sources) -> None:
    # What Dagster itself brings (SQLAlchemy, Alembic) is loaded anyway.
    heavy = HEAVY - {"dagster", "sqlalchemy", "alembic"}
    assert sources.libraries_of("ft_assets.definitions") & heavy == set()


def test_no_import_is_excused_from_the_contracts() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert not [each["name"] for each in settings["contracts"] if "ignore_imports" in each]
    assert settings["root_packages"] == list(PACKAGES)


def test_every_folder_says_what_belongs_there(sources: Sources) -> None:
    folders = {module for module in sources.modules if (ROOT / module.replace(".", "/") / "__init__.py").exists()}
    silent = {
        folder
        for folder in folders
        if not ast.get_docstring(ast.parse((ROOT / folder.replace(".", "/") / "__init__.py").read_text()))
    }
    assert silent == set()
