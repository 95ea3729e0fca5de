"""Remedies for the owner of a job, who cannot write a ``dataset.yaml``: a job takes a file as it is."""

import re

from ft_assets.control.registry.columns import UnknownColumns
from ft_assets.workers.datasets.forms.guess import Guess
from ft_resources.errors import UserError

_POLICY = re.compile(r"dataset\.yaml|--policy")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_FORMS = '{"messages": […]}, {"prompt": …, "completion": …} or {"text": …}'


def remedy_for_job(error: UserError) -> str:
    """The remedy of ``error`` in terms of what a job's owner can change; "" if it has none."""
    if isinstance(error, UnknownColumns):
        renamed = _renamed(error.guess) if error.guess else ""
        return renamed or f"Write the rows as a job reads them, such as {_FORMS}, and upload that file."
    return without_policy(error.remedy)


def without_policy(remedy: str) -> str:
    """``remedy`` without the sentences that speak of a ``dataset.yaml``; another one if none is left."""
    if not _POLICY.search(remedy):
        return remedy
    # Lines to paste belong to the sentence before them.
    kept = [] if "\n" in remedy else [each for each in _SENTENCE.split(remedy) if not _POLICY.search(each)]
    return " ".join(kept) or "Change the file, and upload it again: a job reads its rows as they are."


def _renamed(guess: Guess) -> str:
    """The columns by the names that a job reads; "" if names are not all that differs."""
    if guess.form != "auto" or guess.turns or guess.labels:
        return ""
    changes = [
        f"{source!r} is {field}"
        if isinstance(source, str)
        else f"{' and '.join(map(repr, source))} together are {field}"
        for field, source in guess.fields.items()
    ]
    return f"Give the columns the names that a job reads, and upload that file: {', '.join(changes)}."
