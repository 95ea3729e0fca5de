"""Remedies for the owner of a job, who cannot write a ``dataset.yaml``: a job takes a file as it is."""

import json
import re

from ft_assets.control.registry.columns import UnknownColumns
from ft_assets.control.registry.first_rows import policy_of_guess
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.settings.dataset.row_reading import reading_of
from ft_resources.errors import UserError

_POLICY = re.compile(r"dataset\.yaml|--policy")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_FORMS = '{"messages": […]}, {"prompt": …, "completion": …} or {"text": …}'


def remedy_for_job(error: UserError) -> str:
    """The remedy of ``error`` in terms of what a job's owner can change; "" if it has none."""
    if isinstance(error, UnknownColumns):
        guess = reading_of(policy_of_guess(error.guess, DatasetPolicy())) if error.guess else {}
        lost = f" (not used: {', '.join(error.guess.unused)})" if error.guess and error.guess.unused else ""
        maybe = f" They may be {json.dumps(guess, ensure_ascii=False)}{lost}." if guess else ""
        return (
            "Say what the columns hold: at the step Rows of a new job in the console, or by "
            f'"rows": {{"fields": {{"prompt": …, "completion": …}}}} in the request.{maybe} Or write the rows as '
            f"{_FORMS}."
        )
    return without_policy(error.remedy)


def without_policy(remedy: str) -> str:
    """``remedy`` without the sentences that speak of a ``dataset.yaml``; another one if none is left."""
    if not _POLICY.search(remedy):
        return remedy
    # Lines to paste belong to the sentence before them.
    kept = [] if "\n" in remedy else [each for each in _SENTENCE.split(remedy) if not _POLICY.search(each)]
    return " ".join(kept) or "Correct the file and upload it again: a job uses its rows unchanged."
