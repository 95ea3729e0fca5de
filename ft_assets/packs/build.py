"""The work behind ``token_pack``: a curated dataset and a base's tokenizer become windows of labelled tokens."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ft_assets.packs.doctor import Patient, examine
from ft_assets.packs.evidence import EVIDENCE, vocabulary_size
from ft_assets.packs.examples import IGNORED, PreparedSplit, Preparer, read_examples
from ft_assets.packs.format import SPLITS, TRAIN, VALIDATION, Pack, PackWriter, Spool
from ft_assets.packs.packing import pack
from ft_assets.packs.report import SAMPLES_PAGE, samples_page
from ft_assets.packs.template import ChatTemplate
from ft_assets.packs.tokenizer import TOKENIZER_FILES, ChatTokenizer, base_template, load_template
from ft_resources.artifacts import Artifact
from ft_resources.canonical import canonical_json
from ft_resources.errors import BadBase, BadData
from ft_resources.worker_context import WorkContext, WorkResult

_HISTOGRAM_BINS = 32


def build_pack(context: WorkContext) -> WorkResult:
    """Render, label and pack both splits, and let the doctor look at the files.

    Raises BadBase for a base that cannot be packed for, and BadData, naming the row, for an example that cannot.
    """
    packing: dict[str, Any] = context.params["packing"]
    override: str | None = context.params["chat_template"]
    dataset, base = context.input("dataset"), context.input("base")
    folder = _tokenizer_files(base, context.scratch)
    tokenizer = ChatTokenizer.load(folder)
    template = load_template(folder, tokenizer, override)
    preparer = Preparer(
        template=template,
        tokenizer=tokenizer,
        learn=packing["learn"],
        max_length=packing["max_length"],
        overlong=packing["overlong"],
    )
    prepared = {}
    for split in SPLITS:
        prepared[split] = preparer.prepare(
            dataset.path(f"{split}.parquet", context.scratch),
            lambda done, total, split=split: context.progress(f"tokenizing {split}", done, total),  # type: ignore[misc]
        )
    _require_examples(prepared[TRAIN], packing["max_length"])
    spools = {}
    for split in SPLITS:
        context.progress(f"packing {split}")
        spools[split] = Spool(context.scratch / "spool" / split)
        with spools[split].writing() as spool:
            spool.append(_Batch.of(prepared[split]))
        layout = pack(spools[split].lengths, max_length=packing["max_length"], seed=context.params["seed"])
        PackWriter(context.output, split, "chat", packing["max_length"]).write(spools[split], layout)
    context.progress("examining")
    holdout = dataset.path("holdout.parquet", context.scratch)
    evidence = examine(
        Patient(
            folder=context.output,
            spools=spools,
            train_rows=dataset.path("train.parquet", context.scratch),
            tokenizer=tokenizer,
            reference=_reference(template, base_template(folder, tokenizer), override),
            vocabulary=vocabulary_size((folder / "config.json").read_bytes()),
            holdout_ids=frozenset(example.id for batch in read_examples(holdout) for example in batch),
            max_length=packing["max_length"],
        )
    )
    _write(context.output / EVIDENCE, canonical_json(evidence))
    _write(context.output / SAMPLES_PAGE, samples_page(evidence["samples"]).encode())
    return WorkResult(folder=context.output, facts=_facts(context.output, prepared, packing["max_length"]))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Batch:
    """A whole split as the spool takes it."""

    input_ids: NDArray[np.int32]
    learned: NDArray[np.bool_]
    offsets: NDArray[np.int64]
    example: NDArray[np.int64]
    controls: NDArray[np.int32]
    shortened: NDArray[np.int32]
    ids: NDArray[np.uint8]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, prepared: PreparedSplit) -> "_Batch":
        documents = prepared.documents
        count = len(documents.example_ids)
        return cls(
            input_ids=documents.input_ids,
            learned=documents.labels != IGNORED,
            offsets=documents.offsets,
            example=np.arange(count),
            controls=prepared.control_tokens.astype(np.int32),
            shortened=np.zeros(count, np.int32),
            ids=np.frombuffer(bytes.fromhex("".join(documents.example_ids)), np.uint8).reshape(count, 32),
            rows=prepared.rows,
        )


def _tokenizer_files(base: Artifact, scratch: Path) -> Path:
    """A folder with the base's tokenizer, template and config; the weights are not touched."""
    required = {"tokenizer.json", "config.json"}
    missing = sorted(required - set(base.manifest.files))
    if missing:
        raise BadBase(
            f"the base has no {missing[0]}", where=str(base.address), remedy="Take a base in the Hugging Face layout."
        )
    paths = [base.path(name, scratch) for name in TOKENIZER_FILES if name in base.manifest.files]
    return paths[0].parent


def _require_examples(train: PreparedSplit, max_length: int) -> None:
    if not train.documents.example_ids:
        raise BadData(
            f"no training example is left; {len(train.dropped)} are longer than {max_length} tokens",
            where="train split",
            remedy="Raise packing.max_length in the recipe.",
        )


def _reference(template: ChatTemplate, own: ChatTemplate | None, override: str | None) -> ChatTemplate:
    """The template that the pack must agree with.

    A recipe's template with generation marks is a training variant of the base's and has to render the same; one
    without marks is a deliberate other template, which the adapter then carries.
    """
    if override is None or not template.marked or own is None:
        return template
    return own


def _facts(folder: Path, prepared: dict[str, PreparedSplit], max_length: int) -> dict[str, Any]:
    validation = _split_facts(Pack.open(folder, VALIDATION), prepared[VALIDATION])
    lengths = prepared[TRAIN].documents.lengths
    return {
        **_split_facts(Pack.open(folder, TRAIN), prepared[TRAIN]),
        "max_length": max_length,
        "validation": validation,
        "length_histogram": _histogram(lengths),
    }


def _split_facts(split: Pack, prepared: PreparedSplit) -> dict[str, Any]:
    return {
        "examples": split.examples,
        "tokens": split.tokens,
        "learned_tokens": split.learned_tokens,
        "windows": len(split),
        "dropped": len(prepared.dropped),
        "longest": prepared.longest,
    }


def _histogram(lengths: NDArray[np.int64]) -> dict[str, list[int]]:
    """Document lengths in bins of equal width; ``edges`` has one entry more than ``counts``."""
    longest = int(lengths.max())
    width = -(-longest // _HISTOGRAM_BINS)
    edges = np.arange(longest // width + 2) * width
    counts, _ = np.histogram(lengths, edges)
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
