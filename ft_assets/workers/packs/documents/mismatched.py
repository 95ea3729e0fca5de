"""The second document of an unpaired preference: its prompt with another row's answer, by which KTO estimates KL.

In a batch of rows (512 of a split in order, fewer in the last batch) each prompt gets the previous row's answer, the
first prompt the last row's::

    rows         p0 a0   p1 a1   p2 a2
    documents    p0 a0   p1 a1   p2 a2
                 p0 a2   p1 a0   p2 a1

TRL's ``KTOTrainer`` rotates in the same way within each micro-batch. Here the pairs stay the same whatever the batches,
so the reference scores them once. A row that is alone in its batch gets its own answer, as does one that has no room
for the other's (``fitting.fit``): it is not left out because another row's answer is long.
"""

import numpy as np
import pyarrow as pa

from ft_assets.workers.packs.documents.examples import FIRST_PIECE


def with_mismatched(batch: pa.RecordBatch) -> pa.RecordBatch:
    """``batch`` with each row's own answer in ``chosen`` and the mismatched one in ``rejected``; ``FIRST_PIECE`` is 0
    for rows whose answer people liked, and 2 for the others."""
    rows = np.arange(batch.num_rows)
    liked = np.asarray(batch.column("chosen").value_lengths()) > 0
    both = pa.concat_arrays([batch.column("chosen"), batch.column("rejected")])
    own = both.take(pa.array(np.where(liked, rows, rows + len(rows))))
    other = own.take(pa.array(np.roll(rows, 1)))
    for name, column in (("chosen", own), ("rejected", other)):
        batch = batch.set_column(batch.schema.get_field_index(name), name, column)
    return batch.append_column(FIRST_PIECE, pa.array(np.where(liked, 0, 2).astype(np.int32)))
