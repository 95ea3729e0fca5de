"""Which rows of other dataset versions may be mixed in: they must meet the same rules as a version's own rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ft_assets.settings.catalogue.forms import FORMS
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.columns import EXAMPLES, WEIGHT, map_texts
from ft_assets.workers.datasets.decisions import Decisions
from ft_assets.workers.datasets.engine.prepare import open_index, open_items
from ft_assets.workers.datasets.forms.content_keys import content_keys, flat_texts, prompt_keys
from ft_assets.workers.datasets.held_out import HeldOut, NearIndex, content_words, near_bands, unit_keys
from ft_assets.workers.datasets.split import TRAIN, units_of
from ft_assets.workers.datasets.writing import MixSource, columns_of, hex_of
from ft_resources.errors import BadData

_BATCH = 10_000


def clean_sources(
    sources: Sequence[MixSource],
    decisions: Decisions,
    sides: np.ndarray,
    policy: DatasetPolicy,
    kind: str,
    indices: Sequence[tuple[Path, bool]],
    memory: HeldOut,
    scratch: Path,
) -> tuple[list[MixSource], list[str]]:
    """``sources`` without the rows that must not be trained on here, and a warning for each that lost rows.

    Left out are rows whose prompt or group this version sets aside; rows that its holdout or those of earlier versions
    held (``memory``), and their near copies; rows that overlap with one of ``indices`` (each with whether this curation
    made it: the own holdout, else test items) by more than the policy allows; and with ``personal_data: escalate``,
    rows with personal data. With ``scrub``, those rows are scrubbed. If this version has weights, rows of a source
    without them get 1. Raises BadData if a source's kind of data differs from ``kind``, or if it has weights and this
    version has none.
    """
    if not sources:
        return [], []
    columns, aside = columns_of(policy), _Aside(_set_aside(decisions, sides), memory, NearIndex(memory))
    cleaned, warnings = [], []
    for number, source in enumerate(sources):
        path, lost = scratch / f"mix-{number}.parquet", 0
        with pq.ParquetWriter(path, columns, compression="zstd", compression_level=1) as writer:
            for rows in _batches(source, columns):
                _require_kind(rows, kind, source.dataset)
                good = _usable(rows, aside, policy, indices, decisions)
                lost += len(good) - int(np.count_nonzero(good))
                mixed = rows.filter(pa.array(good))
                writer.write_batch(_scrubbed(mixed, decisions) if policy.personal_data.action == "scrub" else mixed)
        cleaned.append(MixSource(dataset=source.dataset, train=path))
        if lost:
            warnings.append(
                f"{lost:,} rows of {source.dataset} may not be mixed in: they repeat test items or rows that this "
                "version sets aside, or hold personal data."
            )
    return cleaned, warnings


def _batches(source: MixSource, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of ``source`` in ``columns``."""
    wanted = WEIGHT.name in columns.names
    with pq.ParquetFile(source.train) as file:
        weighed = WEIGHT.name in file.schema_arrow.names
        if weighed and not wanted:
            raise BadData(
                f"the rows of {source.dataset} have weights, and the rows of this version have none",
                where="dataset.yaml, mix",
                remedy="Give each row a weight, map that field in dataset.yaml (fields: {weight: …}), or mix in a "
                "version without weights.",
            )
        for batch in file.iter_batches(batch_size=_BATCH):
            rows = batch if weighed or not wanted else batch.append_column(WEIGHT, pa.array(np.ones(batch.num_rows)))
            yield rows.cast(columns)


def _set_aside(decisions: Decisions, sides: np.ndarray) -> np.ndarray:
    """Prompts and groups (named as by ``units_of``) of the rows that are not trained on."""
    found = [np.zeros(0, np.uint64)]
    for start, chunk, batch in decisions.rows.batches():
        span = slice(start, start + chunk.examples)
        rows = decisions.kept[span] & (sides[span] != TRAIN)
        found += [each[rows] for each in _units(batch.column("prompt"), batch.column("group"))]
    return np.unique(np.concatenate(found))


def _units(prompts: pa.UInt64Array, groups: pa.StringArray) -> tuple[np.ndarray, np.ndarray]:
    return prompts.to_numpy(zero_copy_only=False), units_of(prompts, groups)


@dataclass(frozen=True, slots=True)
class _Aside:
    """``units`` are prompts and groups that this version does not train on."""

    units: np.ndarray
    memory: HeldOut
    index: NearIndex

    def holds(self, examples: pa.RecordBatch, texts: pa.Array, policy: DatasetPolicy) -> np.ndarray:
        """Which rows (bool) may not be trained on."""
        groups = examples.column("group")
        prompts, units = _units(prompt_keys(examples), groups)
        grouped = pc.not_equal(groups, "").to_numpy(zero_copy_only=False)
        held: np.ndarray = np.isin(prompts, self.units) | np.isin(units, self.units)
        held |= self.memory.has("content", content_words(content_keys(examples)))
        held |= self.memory.has("unit", unit_keys(units, grouped, policy))
        return held | self.index.near(near_bands(texts), lambda at: texts.take(pa.array(at)))


def _usable(
    rows: pa.RecordBatch,
    aside: _Aside,
    policy: DatasetPolicy,
    indices: Sequence[tuple[Path, bool]],
    decisions: Decisions,
) -> np.ndarray:
    examples = rows.select(EXAMPLES.names)
    texts = flat_texts(examples)
    bad = aside.holds(examples, texts, policy)
    for index, own in indices:
        if own:
            overlap = open_index(str(index), own=True).overlap(texts)
            bad |= overlap.hits > policy.contamination.threshold * overlap.grams
        else:
            bad |= open_items(str(index)).find_in(examples, texts).leaks(policy.contamination.threshold)
    if policy.personal_data.action == "escalate":
        same = pc.equal(hex_of(content_keys(examples)), _scrubbed(rows, decisions).column("id"))
        bad |= ~same.to_numpy(zero_copy_only=False)
    return ~bad


def _scrubbed(rows: pa.RecordBatch, decisions: Decisions) -> pa.RecordBatch:
    """``rows`` with placeholders for personal data, and the rows' new ids."""
    examples = map_texts(rows.select(EXAMPLES.names), decisions.scrubbed)
    columns = {name: rows.column(name) for name in rows.schema.names}
    columns |= {name: examples.column(name) for name in EXAMPLES.names} | {"id": hex_of(content_keys(examples))}
    return pa.RecordBatch.from_pydict(columns, schema=rows.schema)


def _require_kind(rows: pa.RecordBatch, kind: str, dataset: str) -> None:
    form = FORMS[kind]
    answers = sum(np.asarray(rows.column(name).value_lengths()) > 0 for name in ("chosen", "rejected"))
    plain = pc.not_equal(rows.column("text"), "").to_numpy(zero_copy_only=False)
    if ((answers != form.answers) | (plain != form.plain)).any():
        raise BadData(
            f"{dataset} has another kind of data than the {kind} rows of this version",
            where="dataset.yaml, mix",
            remedy=f"Name a dataset of {kind} rows.",
        )
