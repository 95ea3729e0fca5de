"""The data form of an upload's first rows, for a first try without a recipe."""

import json

from ft_assets.control.registry.precheck import check_uploads
from ft_assets.settings.catalogue.forms import ROW_FORMS
from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.forms.parse import parse_lines
from ft_assets.workers.datasets.intake.chunking import chunks
from ft_assets.workers.datasets.intake.spool import Spool
from ft_assets.workers.datasets.reading import Reading


def look(spool: Spool, policy: DatasetPolicy) -> tuple[str, DatasetPolicy]:
    """Name of the data form of a file's rows, by its first chunk (of rows that cannot be read, the most usual one), and
    the policy that reads them so: rows with a thumb up or down have a form that ``auto`` does not guess.

    Raises BadData for rows of different kinds of data, and where none of these rows can be used.
    """
    reading = Reading()
    for chunk in chunks(spool):
        if policy.form == "auto" and (labelled := _labelled(chunk.lines)):
            policy = policy.model_copy(update={"form": labelled})
        parsed = parse_lines(chunk.lines, FormSettings.of(policy), ended=chunk.ended)
        reading.add_parsed(spool, chunk.first_row, chunk.too_long, parsed)
        break
    if not reading.forms:
        # Otherwise the user would first be told what the base lacks for another form.
        check_uploads([spool], policy)
    return reading.kind, policy


def _labelled(lines: bytes) -> str:
    """The row form of the first row if its ``label`` says whether people liked the answer, else ""."""
    try:
        row = json.loads(lines.split(b"\n", 1)[0])
    except ValueError:
        return ""
    if not isinstance(row, dict) or row.get("label") not in (True, False):
        return ""
    names = (name for name, way in ROW_FORMS.items() if "label" in way.row.needs and row.keys() >= set(way.row.needs))
    return next(names, "")
