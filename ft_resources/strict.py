"""Strict reading of user files: unambiguous YAML, and all mistakes of a file in one error."""

import difflib
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.cyaml import CParser  # type: ignore[attr-defined]
from yaml.resolver import Resolver

from ft_resources.errors import BadRecipe
from ft_resources.said import said_of

MAX_BYTES = 256 * 1024
MAX_DEPTH = 32
MAX_NODES = 5_000
"""Mappings, lists, keys and values of a file: each costs some Python, in a process that others wait for."""
MAX_PROBLEMS = 20
_SHOWN = 60
# pydantic's words, which are Python's and JSON's, in ours.
_IN_WORDS = {
    "an object": "a mapping",
    "a valid array": "a list",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid boolean": "true or false",
    "a valid string": "text",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "more than",
}
_OWN_WORDS = re.compile("^(?:" + "|".join(_IN_WORDS) + ")")
_SIZES = ("too_long", "too_short", "string_too_long", "string_too_short")
_OF_SHAPE = frozenset({*_SIZES, "string_pattern_mismatch", "union_tag_invalid", "union_tag_not_found"})
Model = TypeVar("Model", bound=BaseModel)
FieldPath = tuple[str | int, ...]


def read_strict(model_class: type[Model], file: Path, *, what: str, remedy: str) -> Model:
    """The YAML of ``file`` as an instance of ``model_class``. Raises BadRecipe as ``read_text``, ``parse_yaml`` and
    ``parse_strict`` do."""
    where = str(file)
    text = read_text(file, where, what=what, remedy=remedy)
    return parse_strict(model_class, parse_yaml(text, where), where)


def read_text(
    path: Path, where: str, *, most_bytes: int = MAX_BYTES, what: str = "the file", remedy: str = "Check the path."
) -> str:
    """The text of a UTF-8 file. Raises BadRecipe if it is not UTF-8, is too large, no regular file (a pipe would be
    waited for) or cannot be read; ``what`` and ``remedy`` are the error's texts in the last two cases."""
    try:
        if path.exists() and not path.is_file():
            raise BadRecipe(f"{what} cannot be read (it is not a regular file)", where=where, remedy=remedy)
        with path.open("rb") as file:
            # Not the size that the file system says: files of the kernel have none.
            data = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "this is not a path"
        raise BadRecipe(f"{what} cannot be read ({reason})", where=where, remedy=remedy) from error
    if len(data) > most_bytes:
        raise BadRecipe(f"the file is larger than {most_bytes // 1024} KiB", where=where, remedy="Shorten it.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BadRecipe(
            "this is not UTF-8 text", where=f"{where}, line {line}", remedy="Save the file as UTF-8."
        ) from error


def parse_yaml(text: str, where: str, *, most_bytes: int = MAX_BYTES, most_nodes: int = MAX_NODES) -> Any:
    """The value in ``text``: only mappings with text keys, lists, text, finite numbers, true/false and null.

    Plain scalars follow YAML 1.2's core schema, so ``no`` and ``2026-01-01`` are text and ``2e-4`` is a number.
    PyYAML's default, YAML 1.1, does the opposite. Raises BadRecipe, with line and column, for bad syntax, repeated
    keys, tags, aliases (which allow entity-expansion bombs), more than ``most_bytes`` (256 KiB), ``most_nodes`` (5,000
    keys and values) or 32 levels.
    """
    if len(text.encode(errors="surrogatepass")) > most_bytes:
        raise BadRecipe(f"the file is larger than {most_bytes // 1024} KiB", where=where, remedy="Shorten it.")
    try:
        loader = _Loader(text, most_nodes)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except UnicodeEncodeError as error:
        line = text[: error.start].count("\n") + 1
        place = f"{where}, line {line}"
        raise BadRecipe("this text holds half of a surrogate pair", where=place, remedy="Save it as UTF-8.") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{where}, line {mark.line + 1}, column {mark.column + 1}" if mark else where
        problem = error.problem or "this is not valid YAML"
        raise BadRecipe(problem, where=place, remedy="Correct the YAML at this place.") from error
    except yaml.YAMLError as error:
        what = f"this is not valid YAML ({str(error).splitlines()[0]})"
        raise BadRecipe(what, where=where, remedy="Save the file as plain UTF-8 text.") from error


def parse_strict(model_class: type[Model], value: Any, where: str) -> Model:
    """``value`` (JSON-like) as an instance of ``model_class``.

    Raises one BadRecipe that names bad fields by their paths, the first 20, and for an unknown key the nearest known
    one, or what the model's ``FOREIGN_NAMES`` (dotted path by the key elsewhere) say.
    """
    try:
        return model_class.model_validate_json(json.dumps(value))
    except ValidationError as error:
        problems, more = _problems(error, model_class, value)
    told = [f"{path}: {text}" if path else text for path, text in problems]
    number = f"{len(told)} problems" + (" and more" if more else "")
    what = told[0] if len(told) == 1 and not more else f"{number}\n  - " + "\n  - ".join(told)
    raise BadRecipe(what, where=where, remedy="Correct what is named here; nothing was stored.")


def nearest(word: str, known: list[str]) -> str:
    """End of an error message: "did you mean 'x'?" for the closest of ``known``, else a list of them."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known here: {', '.join(sorted(known))}" if known else "none exists yet"


class _Loader(Composer, CParser, SafeConstructor, Resolver):
    """A loader of YAML 1.2 core scalars that refuses tags, aliases, repeated keys, deep nesting and many nodes.

    libyaml reads the text, event by event: its loader composes nodes by itself, before anybody could count them.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def __init__(self, text: str, most_nodes: int) -> None:
        CParser.__init__(self, text)
        Composer.__init__(self)
        SafeConstructor.__init__(self)
        Resolver.__init__(self)
        self.depth, self._left, self._most = 0, most_nodes, most_nodes

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()
        self._left -= 1
        if self._left < 0:
            raise _problem(f"this holds more than {self._most:,} keys and values", event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            raise _problem("aliases (*name) are not allowed; write the value out", event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise _problem(f"tags such as {event.tag!r} are not allowed", event.start_mark)
        if self.depth >= MAX_DEPTH:
            raise _problem(f"this is nested deeper than {MAX_DEPTH} levels", event.start_mark)
        if isinstance(event, yaml.ScalarEvent) and re.search("[\ud800-\udfff]", event.value):
            raise _problem("this text holds half of a surrogate pair", event.start_mark)
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: dict[str, int] = {}
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:str":
                raise _problem("keys must be text", key.start_mark)
            if key.value in seen:
                first = seen[key.value]
                raise _problem(f"duplicate key {key.value!r}; it is already on line {first}", key.start_mark)
            seen[key.value] = key.start_mark.line + 1
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        try:
            number = int(node.value) if node.tag.endswith(":int") else float(node.value)
        except ValueError:
            raise _problem("this number is too long", node.start_mark) from None
        if isinstance(number, float) and not math.isfinite(number):
            raise _problem("this number is too large", node.start_mark)
        return number


def _problem(text: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=text, problem_mark=mark)


# https://yaml.org/spec/1.2.2/#103-core-schema, without octal, hexadecimal, infinities and NaN.
for _tag, _pattern, _first in (
    ("null", r"^(?:null|Null|NULL|~|)$", "nN~\0"),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^[-+]?(?:0|[1-9][0-9]*)$", "-+0123456789"),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
):
    # PyYAML looks resolvers up by a scalar's first character, and by "" for an empty scalar.
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), ["" if c == "\0" else c for c in _first]
    )
for _tag in ("int", "float"):
    # The stubs know PyYAML's own loaders only.
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _Loader.construct_number)  # type: ignore[type-var]


def _problems(error: ValidationError, model_class: type[BaseModel], value: Any) -> tuple[list[tuple[str, str]], bool]:
    """(field path, what is wrong), one per field, and whether there are more of them; expectations of a union's
    branches are joined by "or"."""
    expected: dict[FieldPath, list[str]] = {}
    refused: dict[FieldPath, str] = {}
    shown: dict[FieldPath, str] = {}
    more = False
    for item in error.errors(include_url=False):
        path = field_path(item["loc"], value, missing=item["type"] == "missing")
        if len({**refused, **expected}) >= MAX_PROBLEMS and path not in refused and path not in expected:
            more = True
            break
        if item["type"] == "extra_forbidden":
            written = str(path[-1])
            # A look-alike letter of another alphabet is not visible in the key itself.
            spelt = "" if written.isascii() else f" (spelt {written!a})"
            refused[path] = f"unknown key{spelt}; {_meant(model_class, path)}"
        elif item["type"] == "missing":
            refused[path] = "is missing"
        elif item["msg"].startswith("Input should be "):
            text = _OWN_WORDS.sub(lambda found: _IN_WORDS[found[0]], item["msg"].removeprefix("Input should be "))
            expected.setdefault(path, []).append(re.split(", (?:got|unable to) ", text)[0])
            shown[path] = _shown(item["input"])
        elif item["type"] in _OF_SHAPE:
            refused[path] = said_of(item).replace("must", "should", 1)
        else:
            refused[path] = item["msg"].removeprefix("Value error, ")
    for path in [*refused, *expected]:
        # An error inside a value is more specific than one about the value's type.
        for length in range(len(path)):
            expected.pop(path[:length], None)
    for path, texts in expected.items():
        if path not in refused:
            refused[path] = f"should be {' or '.join(dict.fromkeys(texts))}, not {shown[path]}"
    return [(_written(path), text) for path, text in refused.items()], more


def field_path(loc: FieldPath, value: Any, *, missing: bool) -> FieldPath:
    """``loc`` without the names of union branches that pydantic adds: only parts that exist in ``value``."""
    path: list[str | int] = []
    for part in loc:
        in_mapping = isinstance(value, dict) and part in value
        in_list = isinstance(value, list) and isinstance(part, int) and part < len(value)
        if in_mapping or in_list:
            value = value[part]
        elif not (missing and part is loc[-1]):
            continue
        path.append(part)
    return tuple(path)


def _written(path: FieldPath) -> str:
    """``("a", "b", 0, "c")`` as ``a.b[0].c``."""
    names = [f"[{part}]" if isinstance(part, int) else f".{_visible(part)}" for part in path]
    return "".join(names).lstrip(".")


def _visible(key: str) -> str:
    """A key for an error message: shortened, without control characters that a terminal would interpret."""
    key = key if len(key) <= _SHOWN else f"{key[: _SHOWN - 3]}…"
    return key if key.isprintable() else repr(key)


def _meant(model_class: type[BaseModel], path: FieldPath) -> str:
    """What an unknown key may stand for: another tool's name for a setting, else the nearest key of its mapping."""
    foreign: Mapping[str, str] = getattr(model_class, "FOREIGN_NAMES", {})
    written = str(path[-1])
    if meant := foreign.get(written):
        return f"did you mean {meant!r}?"
    return nearest(written, _known_keys(model_class, path[:-1]))


def _known_keys(model_class: type[BaseModel], path: FieldPath) -> list[str]:
    """The allowed keys of the mapping at ``path``."""
    models = {model_class}
    for part in path:
        fields = [model.model_fields[part] for model in models if isinstance(part, str) and part in model.model_fields]
        models = {found for field in fields for found in _models_in(field.annotation)} or models
    return sorted({name for model in models for name in model.model_fields})


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _shown(value: Any) -> str:
    """A value for an error message: shortened; a mapping or list only by its kind."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "…"
