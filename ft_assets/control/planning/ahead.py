"""Predicts from a sample of a dataset's rows what its token pack will refuse, before anything is curated, scored or
packed."""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ft_assets.control.planning.known_base import KnownBase
from ft_assets.control.planning.row_sample import RowSample, sample_rows
from ft_assets.settings.catalogue.forms import FORMS
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.packs.documents.chats import SkeletonDiffers
from ft_assets.workers.packs.documents.fitting import too_long
from ft_assets.workers.packs.documents.prepare import Prepared, Preparer, PrepareSettings
from ft_assets.workers.tokenizers.tokenizer import TOKENIZER_FILES
from ft_resources.artifacts import Artifacts
from ft_resources.errors import BadData
from ft_resources.lazy import load

# Curation may leave out all of fewer rows.
_SURELY = 3


def look_ahead(artifacts: Artifacts, dataset_key: str, recipe: Recipe, base: KnownBase) -> list[str]:
    """Sentences about rows that are longer than the recipe's window, and what packing does with them; none if all fit.

    Raises BadData for rows that the template refuses, in its words, and for long ones if ``overlong`` is reject.
    """
    if base.file("tokenizer.json") is None:
        return [
            "The rows cannot be checked against the template and the window yet: the base's files are not available."
        ]
    sample = sample_rows(artifacts, dataset_key)
    if sample is None or sample.form != METHODS[recipe.method].form.name:
        return []
    overlong = recipe.packing.overlong
    with tempfile.TemporaryDirectory(prefix="ft-ahead-") as scratch:
        settings = _settings(recipe, base, Path(scratch))
        of = f"in a sample of {sample.batch.num_rows:,} of {sample.rows:,} rows"
        long = _long(sample, sample.batch, settings, of)
        # One row of thousands is enough for a refusal, and a sample hardly ever contains it.
        enough = overlong == "split" or len(long.rows) >= (_SURELY if overlong == "reject" else 1)
        if not enough and sample.batch.num_rows < sample.rows:
            of = f"among the {sample.longest.num_rows:,} longest of {sample.rows:,} rows"
            long = max(long, _long(sample, sample.longest, settings, of), key=lambda each: len(each.rows))
    if overlong == "split" or not len(long.rows):
        return []
    if overlong == "reject" and (sample.curated or len(long.rows) >= _SURELY):
        refused = too_long(
            long.rows, long.files, recipe.packing.max_length, base.context, plain=FORMS[sample.form].plain
        )
        raise BadData(f"{refused.what} ({long.of})", where=refused.where, remedy=refused.remedy)
    count, most = len(long.rows), int(np.max(long.rows[:, 1]))
    becomes = {
        "reject": "packing will refuse them (packing.overlong: reject)",
        "drop": f"packing.overlong: drop will leave out {long.share or 'them'}",
        "truncate": "packing.overlong: truncate will shorten them"
        + (f", and leave out {long.share or f'{long.lost:,} of them'}" if long.lost else ""),
    }[overlong]
    return [
        f"{count} {'row is' if count == 1 else 'rows are'} longer than packing.max_length "
        f"({recipe.packing.max_length:,} tokens; the longest has {most:,}) {long.of}: {becomes}."
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Long:
    """Rows that are longer than the window.

    Args:
        rows: int64 [rows, 2], row of the upload and its tokens.
        files: each row's file.
        lost: number of them that packing leaves out.
        of: which rows were examined, in words.
        share: share of all rows that is left out, in words; "" if the examined rows do not tell.
    """

    rows: NDArray[np.int64]
    files: tuple[str, ...]
    lost: int
    of: str
    share: str


def _long(sample: RowSample, batch: pa.RecordBatch, settings: PrepareSettings, of: str) -> _Long:
    """The long rows in ``batch``, a part of ``sample``. Raises BadData, naming the row, as packing would."""
    try:
        found = _prepared(sample, batch, replace(settings, overlong="drop"))
        lost = len(found.dropped)
        if lost and settings.overlong == "truncate":
            lost = len(_prepared(sample, batch, settings).dropped)
    except BadData as error:
        raise BadData(f"{error.what} ({of})", where=error.where, remedy=error.remedy) from error
    share = f"about {lost / batch.num_rows:.1%} of the rows" if batch is sample.batch else ""
    return _Long(rows=found.dropped, files=found.dropped_files, lost=lost, of=of, share=share)


def _prepared(sample: RowSample, batch: pa.RecordBatch, settings: PrepareSettings) -> Prepared:
    complete = FORMS[sample.form].completed_by
    batch = load(complete)(batch) if complete else batch
    try:
        return Preparer(settings).prepare(batch)
    except SkeletonDiffers:
        return Preparer(replace(settings, skeletons=False)).prepare(batch)


def _settings(recipe: Recipe, base: KnownBase, folder: Path) -> PrepareSettings:
    for name in TOKENIZER_FILES:
        if (data := base.file(name)) is not None:
            (folder / name).write_bytes(data)
    return PrepareSettings(
        folder=folder,
        chat_template=recipe.template,
        form=METHODS[recipe.method].form.name,
        learn=recipe.packing.learn,
        max_length=recipe.packing.max_length,
        overlong=recipe.packing.overlong,
    )
