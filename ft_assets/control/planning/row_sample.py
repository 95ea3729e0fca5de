"""Evenly spread rows of a dataset version, and its longest: of its training split, or before curation of those rows of
the upload that will probably be packed."""

import io
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ft_assets.control import identity
from ft_assets.settings.catalogue.forms import ROW_FORMS, FormName
from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.policy import DatasetPolicy, policy_of
from ft_assets.workers.datasets.forms.content_keys import content_keys, prompt_keys
from ft_assets.workers.datasets.forms.parse import parse_lines
from ft_assets.workers.datasets.intake.chunking import chunks
from ft_assets.workers.datasets.intake.spools import spools_of
from ft_assets.workers.datasets.split import HOLDOUT, sides_of, units_of
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import HeldForReview, MissingInput

ROWS = 256
# A few rows that are too long make packing refuse all, and an even sample hardly ever contains them.
LONGEST = 16
# More is not read: the caller waits for the answer.
_MOST_BYTES = 64 * 1024 * 1024
_CHUNKS = 4
# Of a chunk: of rows of a few letters it has a million.
_MOST_LINES = 20_000


@dataclass(frozen=True, kw_only=True)
class RowSample:
    """Rows as token packs read them.

    Args:
        batch: ``id``, ``file``, ``row`` and the columns of the form; evenly spread rows.
        longest: the same columns; at most ``LONGEST`` rows, those with the most bytes of text.
        form: the rows' form.
        rows: number of rows in total.
        curated: whether they are from the training split, so that all of them will be packed.
    """

    batch: pa.RecordBatch
    longest: pa.RecordBatch
    form: FormName
    rows: int
    curated: bool


def sample_rows(artifacts: Artifacts, dataset_key: str) -> RowSample | None:
    """At most ``ROWS`` rows; None for a version without rows, or too large to be read for this.

    Raises UserError for an unknown version.
    """
    raw = identity.raw_dataset(artifacts, dataset_key)
    try:
        return _of_split(identity.dataset(artifacts, dataset_key))
    except (MissingInput, HeldForReview):
        return _of_upload(raw) if raw.facts["bytes"] <= _MOST_BYTES else None


def _of_split(curated: Artifact) -> RowSample | None:
    entry = curated.manifest.files.get("train.parquet")
    if entry is None or entry.size > _MOST_BYTES:
        return None
    table = pq.read_table(io.BytesIO(curated.read("train.parquet")))
    if not table.num_rows:
        return None
    batch, longest = (
        table.take(chosen).combine_chunks().to_batches()[0]
        for chosen in (_spread(table.num_rows, ROWS), _longest(table.combine_chunks().to_batches()[0]))
    )
    return RowSample(batch=batch, longest=longest, form=curated.facts["form"], rows=table.num_rows, curated=True)


def _of_upload(raw: Artifact) -> RowSample | None:
    policy = policy_of(raw.manifest.identity["params"]["policy"])
    form = FormSettings.of(policy)
    batches, long, forms = [], [], set()
    with tempfile.TemporaryDirectory(prefix="ft-sample-") as scratch:
        spools = spools_of(raw, policy, Path(scratch))
        drawn = all(spool.role != "holdout" for spool in spools)
        found = [(spool.name, chunk) for spool in spools if spool.role == "upload" for chunk in chunks(spool)]
        chosen = _spread(len(found), _CHUNKS).tolist()
        for name, chunk in (found[index] for index in chosen):
            lines = chunk.lines.split(b"\n", _MOST_LINES)[:_MOST_LINES]
            parsed = parse_lines(b"\n".join(lines), form, ended=True)
            forms |= {ROW_FORMS[name].form.name for name in parsed.forms}
            examples = _packed(parsed.examples, name, chunk.first_row, policy, drawn=drawn)
            batches.append(examples.take(pa.array(_spread(examples.num_rows, ROWS // len(chosen)))))
            long.append(examples.take(pa.array(_longest(examples))))
    if len(forms) != 1 or not sum(batch.num_rows for batch in batches):
        return None
    batch, longest = _different(pa.concat_batches(batches)), _different(pa.concat_batches(long))
    return RowSample(
        batch=batch,
        longest=longest.take(pa.array(_longest(longest))),
        form=forms.pop(),
        rows=int(raw.facts.get("rows") or batch.num_rows),
        curated=False,
    )


def _packed(
    examples: pa.RecordBatch, file: str, first_row: int, policy: DatasetPolicy, *, drawn: bool
) -> pa.RecordBatch:
    """The examples of a chunk with their ids, files, and rows as the upload counts them; without copies and, where the
    holdout is drawn, without its rows. Scrubbed prompts are not known yet: then the holdout's rows stay."""
    if drawn and policy.personal_data.action != "scrub":
        units = units_of(prompt_keys(examples), examples.column("group"))
        examples = examples.filter(pa.array(sides_of(units, policy.split) != HOLDOUT))
    ids = pa.array([each.hex() for each in content_keys(examples).to_pylist()], pa.string())
    rows = pa.array(np.asarray(examples.column("row")) + first_row - 1)
    files = pa.repeat(file, examples.num_rows)
    return _different(examples.set_column(0, "row", rows).append_column("id", ids).append_column("file", files))


def _different(examples: pa.RecordBatch) -> pa.RecordBatch:
    """The first example of each id, in order."""
    _, first = np.unique(np.asarray(examples.column("id").dictionary_encode().indices), return_index=True)
    return examples.take(pa.array(np.sort(first)))


def _longest(batch: pa.RecordBatch) -> np.ndarray:
    """Indices of at most ``LONGEST`` rows, those with the most bytes of text, in order, int64."""
    sizes = sum((_sizes(column) for column in batch.columns), np.zeros(batch.num_rows, np.int64))
    return np.sort(np.argsort(-sizes, kind="stable")[:LONGEST])


def _sizes(column: pa.Array) -> np.ndarray:
    """Bytes of all strings in each value of ``column``, int64."""
    if pa.types.is_string(column.type):
        return np.asarray(pc.fill_null(pc.binary_length(column), 0)).astype(np.int64)
    if pa.types.is_struct(column.type):
        return sum(map(_sizes, column.flatten()), np.zeros(len(column), np.int64))
    if pa.types.is_list(column.type):
        before = np.concatenate([[0], np.cumsum(_sizes(column.flatten()))])
        ends = np.cumsum(np.asarray(pc.fill_null(pc.list_value_length(column), 0)))
        return np.diff(before[np.concatenate([[0], ends])])
    return np.zeros(len(column), np.int64)


def _spread(count: int, wanted: int) -> np.ndarray:
    """At most ``wanted`` integers from 0 to count - 1, evenly spread, int64."""
    return np.unique(np.linspace(0, count - 1, wanted).astype(np.int64)) if count else np.zeros(0, np.int64)
