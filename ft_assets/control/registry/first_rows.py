"""The data form of an upload's first rows, for a first try without a recipe."""

import json
from contextlib import suppress
from typing import Any

from ft_assets.control.registry.columns import UnknownColumns
from ft_assets.control.registry.precheck import check_uploads
from ft_assets.settings.catalogue.forms import ROW_FORMS
from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.policy import DatasetPolicy, load_policy
from ft_assets.settings.dataset.row_reading import SPELLING
from ft_assets.workers.datasets.forms.decode import decode_line
from ft_assets.workers.datasets.forms.guess import Guess
from ft_assets.workers.datasets.forms.guesses import MAX_SAMPLE, guess_classes
from ft_assets.workers.datasets.forms.parse import parse_lines
from ft_assets.workers.datasets.forms.reasons import NAME, RowProblem
from ft_assets.workers.datasets.intake.chunking import chunks
from ft_assets.workers.datasets.intake.spool import Spool
from ft_assets.workers.datasets.reading import Reading


def look(spool: Spool, policy: DatasetPolicy) -> tuple[str, DatasetPolicy, str]:
    """Name of the data form of a file's rows, by its first chunk (of rows that cannot be read, the most usual one), and
    the policy that reads them so: rows with a thumb up or down have a form that ``auto`` does not guess, and columns
    may have other names. Last, what was guessed from the columns' names and values, for people; "" if nothing was.

    Raises BadData for rows of different kinds of data, and where none of these rows can be used.
    """
    reading, guess = Reading(), None
    for chunk in chunks(spool):
        if policy.form == "auto" and (labelled := _labelled(chunk.lines)):
            policy = policy.model_copy(update={"form": labelled})
        parsed = parse_lines(chunk.lines, FormSettings.of(policy), ended=chunk.ended)
        reading.add_parsed(spool, chunk.first_row, chunk.too_long, parsed)
        if _says_nothing(policy) and reading.forms.keys() == {"text"}:
            guess = guess_classes(_rows(chunk.lines), FormSettings.of(policy))
        break
    if not reading.forms:
        try:
            # Otherwise the user would first be told what the base lacks for another form.
            check_uploads([spool], policy)
        except UnknownColumns as error:
            guess = error.guess
            # What loses columns to learn one as a plain text may be meant otherwise. Rows that the guess cannot read
            # are bad ones, of which the tenant is told next.
            if not _says_nothing(policy) or guess is None or (guess.kind == "text" and guess.unused):
                raise
    if guess is None:
        return reading.kind, policy, ""
    return guess.kind, policy_of_guess(guess, policy), _told(guess)


def policy_of_guess(guess: Guess, policy: DatasetPolicy) -> DatasetPolicy:
    """``policy``, with rows read as ``guess`` has it."""
    guessed = load_policy(guess.lines, "dataset.yaml")
    return policy.model_copy(update={name: getattr(guessed, name) for name in SPELLING})


def _says_nothing(policy: DatasetPolicy) -> bool:
    """Whether ``policy`` leaves it to a guess how rows are read."""
    return all(getattr(policy, name) == getattr(DatasetPolicy(), name) for name in SPELLING)


def _told(guess: Guess) -> str:
    lost = [*guess.unused, *(guess.turns.ignore if guess.turns else ())]
    names = [name for name in lost if NAME.fullmatch(name)]
    unused = f"\nNot used: {', '.join(names)}." if names else ""
    return (
        "How the rows are read was guessed from their columns. To read them otherwise, put these lines into "
        f"dataset.yaml, change them, and give it with `--policy dataset.yaml`:\n{guess.lines}{unused}"
    )


def _rows(lines: bytes) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for line in lines.split(b"\n", MAX_SAMPLE)[:MAX_SAMPLE]:
        with suppress(RowProblem):
            rows.append(decode_line(line, ended=True))
    return rows


def _labelled(lines: bytes) -> str:
    """The row form of the first row if its ``label`` says whether people liked the answer, else ""."""
    try:
        row = json.loads(lines.split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        return ""
    if not isinstance(row, dict) or row.get("label") not in (True, False):
        return ""
    names = (name for name, way in ROW_FORMS.items() if "label" in way.row.needs and row.keys() >= set(way.row.needs))
    return next(names, "")
