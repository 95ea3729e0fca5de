"""Which rows of a holdout were already learned by the adapter that a training continues."""

from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from ft_assets.workers.packs.format import TRAIN, CachedFiles, Pack
from ft_assets.workers.training.earlier import earlier_checkpoints
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.file_cache import FileCache


def holdout_read_before(artifacts: Artifacts, start: Artifact, dataset: Artifact, scratch: Path) -> int:
    """How many holdout rows of ``dataset`` were training rows of the adapter ``start``, or of one that it continues.

    Ids are digests of rows, so a row is found again in any dataset. Raises UserError if the data of an earlier training
    is no longer in the store.
    """
    table = pq.read_table(dataset.path("holdout.parquet", scratch / "holdout"), columns=["id"])
    held = np.array([bytes.fromhex(text) for text in table["id"].to_pylist()], "S32")
    read = np.zeros(len(held), np.bool_)
    trained = Address.parse(start.manifest.inputs["checkpoint"].address)
    for checkpoint in chain([trained], map(Address.parse, earlier_checkpoints(artifacts, trained))):
        pack = artifacts.get(Address.parse(artifacts.get(checkpoint).manifest.inputs["pack"].address))
        ids = Pack.open(CachedFiles(pack, FileCache.of_machine(scratch)), TRAIN).example_ids
        read |= np.isin(held, np.ascontiguousarray(ids).view("S32").ravel())
    return int(read.sum())
