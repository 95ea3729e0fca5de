"""Some rows of a dataset version, evenly spread: from its training split, or from the upload before it is curated."""

import io
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ft_assets.control import identity
from ft_assets.settings.catalogue.forms import ROW_FORMS, FormName
from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.policy import policy_of
from ft_assets.workers.datasets.curate import spools_of
from ft_assets.workers.datasets.forms.content_keys import content_keys
from ft_assets.workers.datasets.forms.parse import parse_lines
from ft_assets.workers.datasets.intake.chunking import chunks
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import HeldForReview, MissingInput

ROWS = 256
# More is not read: whoever asks waits for the answer.
_MOST_BYTES = 64 * 1024 * 1024
_CHUNKS = 4


@dataclass(frozen=True, kw_only=True)
class RowSample:
    """Rows as token packs read them.

    Args:
        batch: ``id``, ``row`` and the columns of the form.
        form: the rows' form.
        rows: how many there are in all.
        curated: whether they are of the training split, so that all of them will be packed.
    """

    batch: pa.RecordBatch
    form: FormName
    rows: int
    curated: bool


def sample_rows(artifacts: Artifacts, dataset_key: str) -> RowSample | None:
    """At most ``ROWS`` rows; None of a version that is too large to be read for this, and of one without rows.

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
    batch = table.take(_spread(table.num_rows, ROWS)).combine_chunks().to_batches()[0]
    return RowSample(batch=batch, form=curated.facts["form"], rows=table.num_rows, curated=True)


def _of_upload(raw: Artifact) -> RowSample | None:
    policy = policy_of(raw.manifest.identity["params"]["policy"])
    form = FormSettings.of(policy)
    batches, forms = [], set()
    with tempfile.TemporaryDirectory(prefix="ft-sample-") as scratch:
        found = [
            chunk
            for spool in spools_of(raw, policy, Path(scratch))
            if spool.role == "upload"
            for chunk in chunks(spool)
        ]
        chosen = _spread(len(found), _CHUNKS).tolist()
        for chunk in (found[index] for index in chosen):
            parsed = parse_lines(chunk.lines, form, ended=chunk.ended)
            forms |= {ROW_FORMS[name].form.name for name in parsed.forms}
            some = parsed.examples.take(pa.array(_spread(parsed.examples.num_rows, ROWS // len(chosen))))
            ids = pa.array([each.hex() for each in content_keys(some).to_pylist()], pa.string())
            rows = pa.array(np.asarray(some.column("row")) + chunk.first_row - 1)
            some = some.set_column(0, "row", rows)
            batches.append(some.append_column("id", ids))
    if len(forms) != 1 or not sum(batch.num_rows for batch in batches):
        return None
    batch = pa.concat_batches(batches)
    return RowSample(batch=batch, form=forms.pop(), rows=int(raw.facts.get("rows") or batch.num_rows), curated=False)


def _spread(count: int, wanted: int) -> np.ndarray:
    """At most ``wanted`` of 0 .. count - 1, evenly spread, int64."""
    return np.unique(np.linspace(0, count - 1, wanted).astype(np.int64)) if count else np.zeros(0, np.int64)
