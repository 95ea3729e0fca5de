"""Rows of other datasets mixed into the training rows, so that the model keeps its existing abilities."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ft_assets.settings.dataset.policy import MixSettings
from ft_assets.workers.datasets.quality.draw import draw_order, leading_words
from ft_assets.workers.datasets.reporting.report import Mixed
from ft_resources.errors import BadData

# Above this a version would be mostly other datasets, and hundreds of thousands of rows could depend on a few own ones.
_MOST = 0.8


@dataclass(frozen=True, kw_only=True, slots=True)
class Mixture:
    """What is mixed in: for each setting, ascending row indices into its candidates, its record, and warnings."""

    rows: list[np.ndarray]
    mixed: list[Mixed]
    warnings: list[str]


def sample_mix(
    settings: Sequence[MixSettings], train_rows: int, candidates: Sequence[pa.FixedSizeBinaryArray]
) -> Mixture:
    """Which rows of other datasets to add to ``train_rows`` training rows.

    Each ``share`` is relative to the training rows after mixing: with shares s, own rows make up 1 - sum(s). Rows are
    drawn by their content keys, none twice; a larger share includes the rows of a smaller one. If a dataset has too few
    rows, all of them are taken with a warning, and the other datasets' numbers stay as planned.

    Args:
        settings: the policy's ``mix``.
        train_rows: number of own training rows, after balancing.
        candidates: for each setting, the content keys of the other dataset's training rows that this version does not
            have (on any side).

    Raises:
        BadData: the shares together are more than 0.8.
    """
    total = sum(each.share for each in settings)
    if total > _MOST:
        raise BadData(
            f"the shares of mix are {total:g} together, more than {_MOST:g}",
            where="dataset.yaml, mix",
            remedy="Lower them: 0.05 to 0.1 of general data and a few hundredths of safety examples are usual.",
        )
    wanted = [round(each.share * train_rows / (1 - total)) for each in settings]
    taken = np.empty(0, np.uint64)
    chosen, warnings = [], []
    for each, keys, count in zip(settings, candidates, wanted, strict=True):
        order = draw_order(keys)
        words = leading_words(keys)[order]
        first = np.ones(len(words), np.bool_)
        first[1:] = words[1:] != words[:-1]
        rows = order[first & ~np.isin(words, taken)][:count]
        taken = np.concatenate([taken, leading_words(keys)[rows]])
        chosen.append(np.sort(rows))
        if len(rows) < count:
            warnings.append(
                f"{each.dataset} has {len(rows):,} rows to mix in, {count:,} were wanted; all of them are taken. Lower "
                f"its share ({each.share:g}) or name a larger dataset."
            )
    rows_after = train_rows + sum(len(rows) for rows in chosen)
    mixed = [
        Mixed(
            dataset=each.dataset,
            purpose=each.purpose,
            rows=len(rows),
            share=len(rows) / rows_after if rows_after else 0.0,
        )
        for each, rows in zip(settings, chosen, strict=True)
    ]
    return Mixture(rows=chosen, mixed=mixed, warnings=warnings)
