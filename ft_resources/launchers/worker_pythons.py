"""The Python of a kind of work on this machine, if its packages conflict with the platform's.

``FT_WORKER_PYTHONS`` is ``KIND=PROGRAM``, several separated by commas, such as
``quantized_model=/opt/exports/bin/python``. On a cluster ``images`` of its settings does the same.
"""

import os

from ft_resources.environment import WORKER_PYTHONS
from ft_resources.errors import UserError
from ft_resources.kubernetes.s3_policy import WORKED
from ft_resources.strict import nearest


def worker_pythons() -> dict[str, str]:
    """Programs by kind of work. Raises UserError for a malformed pair, an unknown kind, and a program that cannot be
    run."""
    text = os.environ.get(WORKER_PYTHONS, "")
    pairs = [each.partition("=") for each in text.split(",") if each.strip()]
    return {_kind(kind.strip()): _program(program.strip()) for kind, _, program in pairs}


def _kind(kind: str) -> str:
    if kind not in WORKED:
        raise UserError(
            f"there is no kind of work {kind!r}: {nearest(kind, [*WORKED])}",
            where=WORKER_PYTHONS,
            remedy="Write KIND=PROGRAM, several separated by commas, or unset it.",
        )
    return kind


def _program(program: str) -> str:
    if not os.access(program, os.X_OK) or not os.path.isfile(program):
        raise UserError(
            f"there is no program {program!r}",
            where=WORKER_PYTHONS,
            remedy="Name the Python of an environment in which the platform is installed too.",
        )
    return program
