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


@pytest.mark.statistics
def test_an_error_that_is_raised_says_what_to_do(sources: Sources) -> None:
    """All but what has no remedy: work that has ended, and what an engine's own process says to its caller."""
    trees = {module: ast.parse(path.read_text()) for module, path in sources.files.items()}
    classes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    errors = {"UserError"}
    while more := {
        each.name
        for each in classes
        if each.name not in errors and errors & {base.id for base in each.bases if isinstance(base, ast.Name)}
    }:
        errors |= more
    # Their constructors know the remedy.
    with_own = {each.name for each in classes if any(getattr(node, "name", "") == "__init__" for node in each.body)} - {
        "TooManyRequests"
    }
    silent = {
        f"{module}, line {node.lineno}: {node.func.id}"
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in errors - with_own - {"UserError", "ServerUnavailable"}
        if not {"remedy", None} & {keyword.arg for keyword in node.keywords}
    }
    assert silent == set()
