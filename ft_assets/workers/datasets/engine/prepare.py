"""All kernels that need only one chunk: lines of JSON in, examples with their features out."""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import unidata_version

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ft_assets.settings.dataset.policy import PersonalDataSettings, policy_of
from ft_assets.workers.datasets.columns import TURN_COLUMNS, map_texts
from ft_assets.workers.datasets.forms.content_keys import content_keys, flat_texts, prompt_keys
from ft_assets.workers.datasets.forms.parse import FormSettings, notes_of_parsed, parse_lines
from ft_assets.workers.datasets.quality.measures import measure
from ft_assets.workers.datasets.screening.names import NameModel
from ft_assets.workers.datasets.screening.personal import screen
from ft_resources.canonical import digest

if TYPE_CHECKING:
    # Importing numba takes a second, which a process that only plans the work need not spend.
    from ft_assets.workers.datasets.similarity.items import ItemIndex
    from ft_assets.workers.datasets.similarity.ngrams import GramIndex

# Raise it when a kernel's output changes for the same lines: it is part of every cache key.
KERNELS_VERSION = "11"
_EVERY_TYPE = PersonalDataSettings(action="scrub")
NOTES = b"ft.notes"


@dataclass(frozen=True, kw_only=True, slots=True)
class PrepareSettings:
    """What the per-chunk kernels need, as plain values that travel between processes.

    ``policy`` is the whole policy as JSON; ``index`` the file of the test items, None if no suite is
    configured; ``suites`` the digests of its suites; ``names`` the policy's name model, None if it names none.
    """

    policy: dict[str, Any]
    index: str | None
    suites: tuple[str, ...]
    names: NameModel | None = None

    @property
    def key(self) -> str:
        """Digest of everything that decides a chunk's result, except its lines."""
        used = {name: self.policy[name] for name in ("form", "fields", "personal_data", "quality")}
        used |= {name: self.policy[name] for name in ("turns", "labels") if name in self.policy}
        used |= {"name_model": self.names.digest} if self.names else {}
        near = self.policy["duplicates"]["near"] != "off"
        return digest(
            {
                "kernels": KERNELS_VERSION,
                "unicode": unidata_version,
                "suites": list(self.suites),
                "near": self.policy["duplicates"]["threshold"] if near else None,
                "group_by": self.policy["split"]["group_by"],
                **used,
            }
        )


def prepare(lines: bytes, *, ended: bool, settings: PrepareSettings) -> pa.RecordBatch:
    """The examples in ``lines`` with a column for each feature, and the report's notes in the schema's metadata.

    Columns: EXAMPLES and, if the policy maps it, WEIGHT; ``content`` (binary 32), ``prompt`` (uint64), the bands,
    those of the overlap with test items (``leak_columns``), ``personal`` (unsigned, bits in the order of the types that
    the policy searches for), and the columns of ``quality.measure``. ``ended`` says whether the last line has its line
    end. The result is a pure function of the arguments (and of the files of the index and of the name model, whose
    contents are named).
    """
    from ft_assets.workers.datasets.similarity.folded import bare_texts
    from ft_assets.workers.datasets.similarity.minhash import band_hashes

    policy = policy_of(settings.policy)
    parsed = parse_lines(lines, FormSettings.of(policy), ended=ended)
    examples, personal, counts = _screened(parsed.examples, policy.personal_data, settings.names)
    examples = _with_plain_labels(examples, scrub=policy.personal_data.action == "scrub")
    texts = flat_texts(examples)
    columns: dict[str, pa.Array] = {name: examples.column(name) for name in examples.schema.names}
    columns["content"] = content_keys(examples)
    columns["prompt"] = prompt_keys(examples)
    if policy.duplicates.near != "off":
        bands = band_hashes(bare_texts(texts), policy.duplicates.threshold)
        columns.update({f"band_{band:02d}": pa.array(bands[:, band]) for band in range(bands.shape[1])})
    columns.update(leak_columns(examples, texts, settings.index))
    columns["personal"] = pa.array(personal)
    measures = measure(examples, texts, policy.quality)
    columns.update({name: measures.column(name) for name in measures.schema.names})
    batch = pa.RecordBatch.from_pydict(columns)
    return batch.replace_schema_metadata({NOTES: json.dumps({**notes_of_parsed(parsed), "personal": counts}).encode()})


def leak_columns(examples: pa.RecordBatch, texts: pa.StringArray, index: str | None) -> dict[str, pa.Array]:
    """The columns of ``items.Found`` for ``examples`` against the index file; without an index, nothing is found."""
    if index is not None:
        return {name: pa.array(values) for name, values in open_items(index).find_in(examples, texts).columns.items()}
    kinds: dict[str, Any] = {"grams": np.uint32, "hits": np.uint32, "source": np.int16, "item": np.int32}
    kinds |= {"share": np.float32, "choices": np.uint8, "whole": np.uint8}
    return {name: pa.array(np.zeros(len(texts), kind)) for name, kind in kinds.items()}


def notes_of(schema: pa.Schema) -> dict[str, Any]:
    """The notes that ``prepare`` left for the report: those of ``notes_of_parsed``, and personal."""
    return json.loads(schema.metadata[NOTES])


@lru_cache(maxsize=4)
def open_items(path: str) -> "ItemIndex":
    """The index of test items at ``path``, checked once per process."""
    from ft_assets.workers.datasets.similarity.items import ItemIndex

    return ItemIndex.open(Path(path))


@lru_cache(maxsize=4)
def open_index(path: str, *, own: bool = False) -> "GramIndex":
    """The 13-grams at ``path``, checked once per process, or not at all if this curation made them (``own``)."""
    from ft_assets.workers.datasets.similarity.ngrams import GramIndex

    return GramIndex.open(Path(path), own=own)


def _screened(
    examples: pa.RecordBatch, settings: PersonalDataSettings, model: NameModel | None
) -> tuple[pa.RecordBatch, np.ndarray, dict[str, int]]:
    """``examples``, scrubbed if the policy says so; each row's types as bits; how often each type was found."""
    kind = np.min_scalar_type((1 << len(settings.searched)) - 1)
    found = np.zeros(examples.num_rows, kind)
    counts: Counter[str] = Counter()
    if settings.action == "off":
        return examples, found, counts
    owners = iter(_owners(examples))

    def scrub(texts: pa.Array) -> pa.Array:
        screened = screen(texts, settings, model)
        rows = next(owners)
        index, names = (screened.findings.column(name).to_pylist() for name in ("index", "type"))
        counts.update(names)
        for place, name in zip(index, names, strict=True):
            found[rows[place] if rows is not None else place] |= kind.type(1 << settings.searched.index(name))
        return screened.texts

    return map_texts(examples, scrub), found, counts


def _with_plain_labels(examples: pa.RecordBatch, *, scrub: bool) -> pa.RecordBatch:
    """``examples`` without personal data in their labels.

    Kinds are counted by name in reports and logs that more people read than the rows, so they are scrubbed under any
    policy. Groups stay in the rows. With ``scrub``, a group that holds personal data is replaced by its digest, since a
    placeholder would merge many groups into one.
    """
    kinds = examples.column("kind").dictionary_encode()
    plain = screen(kinds.dictionary, _EVERY_TYPE).texts
    columns = {name: examples.column(name) for name in examples.schema.names}
    columns["kind"] = plain.take(kinds.indices)
    if scrub:
        groups = examples.column("group").dictionary_encode()
        names = groups.dictionary.to_pylist()
        for index in set(screen(groups.dictionary, _EVERY_TYPE).findings.column("index").to_pylist()):
            names[index] = f"scrubbed-{hashlib.sha256(names[index].encode()).hexdigest()[:16]}"
        columns["group"] = pa.array(names, pa.string()).take(groups.indices)
    return pa.RecordBatch.from_pydict(columns, schema=examples.schema)


def _owners(examples: pa.RecordBatch) -> list[np.ndarray | None]:
    """For every array that ``map_texts`` passes, the example that each of its texts belongs to (None: their own)."""
    owners: list[np.ndarray | None] = []
    for name in TURN_COLUMNS:
        rows = pc.list_parent_indices(examples.column(name)).to_numpy()
        owners += [rows, rows]  # content, then tool_calls
    return [*owners, None]
