"""The project's imports read from its sources: what a module loads, and which imports stand inside functions."""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("ft_assets", "ft_resources", "ft_sensors")
# Libraries that take a noticeable time or much memory to import, or that only some installations have.
HEAVY = frozenset(
    {
        *("accelerate", "bitsandbytes", "datasets", "deepspeed", "lm_eval", "peft", "torch", "transformers", "trl"),
        *("alembic", "dagster", "duckdb", "kubernetes", "mlflow", "ray", "sqlalchemy", "vllm"),
        *(
            "matplotlib",
            "numba",
            "numpy",
            "phonenumbers",
            "presidio_analyzer",
            "py3langid",
            "pyarrow",
            "pypdfium2",
            "scipy",
        ),
        *("spacy", "tiktoken", "tokenizers"),
    }
)
# Beside these, what `ft --help` and completion must not wait for (tests/cli/test_nouns.py).
SLOW_TO_START = frozenset({"aiohttp", "fastapi", "httpx", "jinja2", "obstore", "psutil", "pydantic", "rich"})
# A quarter of the start of `ft status`, which needs the project's own for open submissions only, and no template.
SLOW_AND_OURS = frozenset({"ft_assets.control.identity", "jinja2"})
COMMAND_LINE = "ft_assets.cli.main"


@dataclass(frozen=True, kw_only=True, slots=True)
class Import:
    """One imported module: of the project by its full name, else a library by its first name."""

    target: str
    line: int
    in_function: bool
    for_types: bool


class Sources:
    """Every module of the project with its imports."""

    def __init__(self, root: Path = ROOT) -> None:
        listed = subprocess.check_output(["git", "ls-files", *PACKAGES], cwd=root, text=True).split()
        files = {_module(name): root / name for name in listed if name.endswith(".py") and (root / name).exists()}
        self.files = files
        self.modules = frozenset(files)
        self.imports = {module: list(self._imports(file)) for module, file in files.items()}
        self._libraries: dict[str, frozenset[str]] = {}

    def loaded_by(self, module: str) -> frozenset[str]:
        """Project modules that importing ``module`` loads, itself included, as their sources say."""
        seen: set[str] = set()
        waiting = [module]
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            parents = [name.rsplit(".", count)[0] for count in range(1, name.count(".") + 1)]
            at_top = [each.target for each in self.imports[name] if not each.in_function and not each.for_types]
            waiting += [each for each in (*parents, *at_top) if each in self.modules]
        return frozenset(seen)

    def libraries_of(self, module: str) -> frozenset[str]:
        """Libraries that importing ``module`` loads through modules of the project."""
        if module not in self._libraries:
            self._libraries[module] = frozenset(
                each.target
                for name in self.loaded_by(module)
                for each in self.imports[name]
                if (each.target not in self.modules or each.target in SLOW_AND_OURS)
                if not each.in_function
                if not each.for_types
            )
        return self._libraries[module]

    @cached_property
    def needless(self) -> list[str]:
        """Imports of the project inside functions that load no heavy library which the file has not loaded before."""
        start, found = self.loaded_by(COMMAND_LINE), []
        for module, imports in self.imports.items():
            heavy = (HEAVY | SLOW_TO_START if module in start else HEAVY) | SLOW_AND_OURS
            before = self.libraries_of(module) & heavy
            for each in imports:
                if not each.in_function or each.for_types or each.target not in self.modules:
                    continue
                if not (self.libraries_of(each.target) & heavy) - before:
                    found.append(f"{module}, line {each.line}: {each.target}")
        return found

    def _imports(self, file: Path) -> Iterator[Import]:
        def visit(body: list[ast.stmt], in_function: bool, for_types: bool) -> Iterator[Import]:
            for statement in body:
                types = for_types or (isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test))
                for target in _targets(statement):
                    known = self._known(target)
                    yield Import(target=known, line=statement.lineno, in_function=in_function, for_types=types)
                inside = in_function or isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
                for below in ("body", "orelse", "finalbody"):
                    yield from visit(getattr(statement, below, []), inside, types)
                for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                    yield from visit(part.body, inside, types)

        yield from visit(ast.parse(file.read_text(encoding="utf-8")).body, False, False)

    def _known(self, target: str) -> str:
        module, _, _ = target.rpartition(".")
        return target if target in self.modules else module if module in self.modules else target.partition(".")[0]


def _targets(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom) and node.module:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)


def _module(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
