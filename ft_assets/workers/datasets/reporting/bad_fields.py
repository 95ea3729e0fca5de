"""Which field of the upload a bad row's note is about."""

import re

from ft_assets.settings.dataset.policy import DatasetPolicy

_NAME = re.compile(r"[^.\[]*")


def field_and_problem(detail: str, policy: DatasetPolicy) -> tuple[str, str]:
    """The field, by the upload's own name, and the problem; the field is "" if the problem is not about one field.

    ``detail`` is ``field: problem`` with the form's name of the field, which the uploader may not know; or only the
    problem.
    """
    field, colon, problem = detail.partition(": ")
    # A field is a path such as messages[1].role; a problem that contains a colon has blanks before the colon.
    if not colon or " " in field:
        return "", detail
    name = _NAME.match(field)
    assert name is not None
    mapped = policy.fields.get(name.group())
    return (mapped + field[name.end() :] if isinstance(mapped, str) else field), problem
