"""What a sample of a dataset's rows says of its token pack, before anything is curated, scored or packed."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

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

# Fewer rows of an upload may all be in its holdout, or be left out by curation.
_SURELY = 3


def look_ahead(artifacts: Artifacts, dataset_key: str, recipe: Recipe, base: KnownBase) -> list[str]:
    """Sentences about rows that are longer than the recipe's window, and what becomes of them; none if all fit.

    Raises BadData for rows that the template refuses, in its words, and for long ones where ``overlong`` is reject.
    """
    if base.file("tokenizer.json") is None:
        return ["Whether the rows fit the template and the window is not known: the base's files are not here yet."]
    sample = sample_rows(artifacts, dataset_key)
    if sample is None or sample.form != METHODS[recipe.method].form.name:
        return []
    of = f"in a sample of {sample.batch.num_rows:,} of {sample.rows:,} rows"
    with tempfile.TemporaryDirectory(prefix="ft-ahead-") as scratch:
        settings = _settings(recipe, base, Path(scratch))
        try:
            dropped = _prepared(sample, replace(settings, overlong="drop")).dropped
            if not len(dropped) or recipe.packing.overlong == "split":
                return []
            lost = dropped
            if recipe.packing.overlong == "truncate":
                lost = _prepared(sample, settings).dropped
        except BadData as error:
            raise BadData(f"{error.what} ({of})", where=error.where, remedy=error.remedy) from error
    if recipe.packing.overlong == "reject" and (sample.curated or len(dropped) >= _SURELY):
        long = too_long(dropped, recipe.packing.max_length, base.context, plain=FORMS[sample.form].plain)
        raise BadData(f"{long.what} ({of})", where=long.where, remedy=long.remedy)
    share, count = len(lost) / sample.batch.num_rows, len(dropped)
    becomes = {
        "reject": "packing will refuse them (packing.overlong: reject)",
        "drop": f"packing.overlong: drop will leave out about {share:.1%} of the rows",
        "truncate": "packing.overlong: truncate will shorten them"
        + (f", and leave out about {share:.1%} of the rows" if share else ""),
    }[recipe.packing.overlong]
    longest = int(np.max(dropped[:, 1]))
    return [
        f"{count} {'row is' if count == 1 else 'rows are'} longer than packing.max_length "
        f"({recipe.packing.max_length:,} tokens; the longest has {longest:,}) {of}: {becomes}."
    ]


def _prepared(sample: RowSample, settings: PrepareSettings) -> Prepared:
    """Raises BadData, naming the row, as packing would."""
    complete = FORMS[sample.form].completed_by
    batch = load(complete)(sample.batch) if complete else sample.batch
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
