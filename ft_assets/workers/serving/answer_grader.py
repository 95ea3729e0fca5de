"""Whether an answer has its line's format."""

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ft_assets.settings.answer_format import AnswerFormat
from ft_assets.workers.suites.patterns import check_pattern
from ft_resources.canonical import canonical_json
from ft_resources.errors import BadRecipe

Grader = Callable[[str], bool]
MOST_S = 1.0
"""Seconds for a pattern on one answer; usual ones take microseconds."""
_REMEDY = "Correct the format of the line in tenants.yaml."


def is_valid(wanted: AnswerFormat, answer: str) -> bool:
    """Whether ``answer``, without white space around it, has the format.

    Raises BadRecipe for a pattern that may take for ever or takes too long on the answer, and for a schema with a
    broken reference.
    """
    return _grader(canonical_json(wanted.model_dump(mode="json")))(answer.strip())


@lru_cache(maxsize=256)
def _grader(wanted: bytes) -> Grader:
    found = AnswerFormat.model_validate_json(wanted)
    return _matches(found.regex) if found.regex is not None else _keeps(found.json_schema or {})


def _matches(pattern: str) -> Grader:
    import regex

    try:
        # As in suites: users can make the model write a text on which a careless pattern never ends.
        compiled = regex.compile(check_pattern(pattern))
    except ValueError as error:
        raise BadRecipe(str(error), where="format: regex", remedy=_REMEDY) from error

    def grade(answer: str) -> bool:
        try:
            # Concurrent: other requests are answered meanwhile.
            return compiled.search(answer, timeout=MOST_S, concurrent=True) is not None
        except TimeoutError as error:
            raise BadRecipe("the pattern takes too long on an answer", where=pattern, remedy=_REMEDY) from error

    return grade


def _keeps(schema: dict[str, Any]) -> Grader:
    from jsonschema import Draft202012Validator
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    # With the default registry it would fetch the references.
    validator = Draft202012Validator(schema, registry=Registry())

    def grade(answer: str) -> bool:
        try:
            document = json.loads(answer, parse_constant=_no_number)
        except (ValueError, RecursionError):
            return False
        try:
            return bool(validator.is_valid(document))
        except Unresolvable as error:
            raise BadRecipe(
                f"a reference of the schema leads nowhere: {error}", where="format", remedy=_REMEDY
            ) from error

    return grade


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
