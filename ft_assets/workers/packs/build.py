"""The work of ``token_pack``: a curated dataset and a base's tokenizer become windows of labelled tokens."""

import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ft_assets.settings.catalogue.forms import FORMS, FormName
from ft_assets.workers.datasets.engine.carried import Needed
from ft_assets.workers.datasets.engine.local import (
    Mapper,
    Purpose,
    engine_of,
    in_process,
    process_count,
    processes,
    start_early,
)
from ft_assets.workers.datasets.engine.ray import on_ray
from ft_assets.workers.datasets.engine.versions import differing, installed
from ft_assets.workers.packs.doctor.examine import examine
from ft_assets.workers.packs.doctor.patient import Patient
from ft_assets.workers.packs.documents.chats import SkeletonDiffers
from ft_assets.workers.packs.documents.fitting import longer_windows
from ft_assets.workers.packs.documents.prepare import PrepareSettings, learns_by_turn
from ft_assets.workers.packs.documents.tokenize import PrepareTask, TokenizedSplit, is_large, texts_of, tokenize_split
from ft_assets.workers.packs.evidence import EVIDENCE, vocabulary_size
from ft_assets.workers.packs.format import SPLITS, TRAIN, VALIDATION, Layout, PackWriter, Spool
from ft_assets.workers.packs.format.layout import PAIRS_IN_BLOCK, Index
from ft_assets.workers.packs.packing import one_by_one, pack
from ft_assets.workers.packs.report import SAMPLES_PAGE, samples_page
from ft_assets.workers.tokenizers.chat_template import reference_template
from ft_assets.workers.tokenizers.choice import EncoderChoice, choose_encoder
from ft_assets.workers.tokenizers.tokenizer import TOKENIZER_FILES, ChatTokenizer
from ft_resources.artifacts import Artifact
from ft_resources.canonical import canonical_json
from ft_resources.errors import BadBase, BadData
from ft_resources.worker_context import WorkContext, WorkResult

PACKING = Purpose(work="packing", where="token_pack", variable="FT_PACK_PROCESSES", engine="FT_PACK_ENGINE")
# Batches of rows in a task on Ray: a batch takes milliseconds, and handing over a task takes one.
_BATCHES_AT_ONCE = 16
_HISTOGRAM_BINS = 32
_NAMED_ROWS = 20


class OtherTools(Exception):
    """The worker has other versions of the packages that decide tokens than the pack's address states; not a user's
    error."""


def build_pack(context: WorkContext) -> WorkResult:
    """Render, label and pack both splits, and let the doctor check the files.

    Memory holds one batch of rows per process, and some numbers per document. Raises BadBase for a base that packing
    does not support, BadData, naming the row, for an example that cannot be packed, and OtherTools in a worker that
    would give other tokens than the pack's address promises.
    """
    _require_tools(context.params["tools"])
    packing: dict[str, Any] = context.params["packing"]
    form: FormName = context.params.get("form", "chat")
    dataset, base = context.input("dataset"), context.input("base")
    files = {split: dataset.path(f"{split}.parquet", context.scratch) for split in SPLITS}
    large = is_large(files.values())
    folder = _tokenizer_files(base, context.scratch)
    encoder = _encoder(folder, files, large)
    settings = PrepareSettings(
        folder=folder,
        chat_template=context.params["chat_template"],
        form=form,
        learn=packing["learn"],
        max_length=packing["max_length"],
        overlong=packing["overlong"],
        encoder=encoder.engine,
    )
    tokenized = _tokenize_splits(context, files, settings, large)
    _require_examples(tokenized[TRAIN], settings)
    written = {}
    for split in SPLITS:
        context.progress(f"packing {split}")
        spool = tokenized[split].spool
        layout = _layout(spool, form, settings.max_length, context.params["seed"])
        written[split] = PackWriter(context.output, split, form, settings.max_length).write(spool, layout)
    context.progress("examining")
    evidence = _examine(context, settings, tokenized, files[TRAIN], dataset)
    splits = {split: _split_facts(written[split], tokenized[split]) for split in SPLITS}
    facts = {
        **splits[TRAIN],
        "form": form,
        "encoder": encoder.why,
        "max_length": settings.max_length,
        "validation": splits[VALIDATION],
        "length_histogram": _histogram(tokenized[TRAIN].spool.lengths),
    }
    _write(context.output / EVIDENCE, canonical_json(evidence))
    _write(context.output / SAMPLES_PAGE, samples_page(context.spec.label, facts, evidence).encode())
    return WorkResult(folder=context.output, facts=facts)


def _require_tools(wanted: Mapping[str, str]) -> None:
    """Raise OtherTools unless these versions of packages (``settings.code_versions.PACK_TOOLS``) are installed."""
    others = differing(installed(wanted), wanted)
    if others:
        raise OtherTools(
            f"this worker has {others}; a pack made with it would have the address of another. Install the "
            "worker by the constraints.txt of the code location (the image of the same release), or, to upgrade, "
            "change constraints.txt and PACK_TOOLS together."
        )


def _encoder(folder: Path, files: Mapping[str, Path], large: bool) -> EncoderChoice:
    """The tokenizer engine for the data; the processes start meanwhile."""
    if not large:
        return EncoderChoice(engine="tokenizers", why="tokenizers: so little text that choosing would take longer")
    if process_count(PACKING) > 1 and engine_of(PACKING) == "local":
        start_early()
    return choose_encoder(ChatTokenizer.load(folder), texts_of(files.values()))


def _tokenize_splits(
    context: WorkContext, files: Mapping[str, Path], settings: PrepareSettings, large: bool
) -> dict[str, TokenizedSplit]:
    """Both splits, in processes if there is enough work; again without skeletons if one differs from the template's
    rendering.

    The rows that a wrong skeleton rendered earlier, in either split and any process, are not known.
    """
    folder = context.scratch / "spool"

    def tokenized(settings: PrepareSettings) -> dict[str, TokenizedSplit]:
        with _mapper(settings, large) as mapper:
            return {
                split: tokenize_split(
                    path, settings, mapper, folder / split, partial(context.progress, f"tokenizing {split}")
                )
                for split, path in files.items()
            }

    try:
        return tokenized(settings)
    except SkeletonDiffers as error:
        context.progress(f"{error}; rendering every row by itself")
        shutil.rmtree(folder)
        return tokenized(replace(settings, skeletons=False))


def _mapper(settings: PrepareSettings, large: bool) -> AbstractContextManager[Mapper]:
    """The engine, or this process where its start would take longer than the work."""
    if not large:
        return nullcontext(in_process)
    if engine_of(PACKING) == "ray":
        files = {name: settings.folder / name for name in TOKENIZER_FILES if (settings.folder / name).exists()}
        needed = Needed(files=files, moved=_moved)
        return nullcontext(on_ray(PACKING, needed, at_once=_BATCHES_AT_ONCE))
    count = process_count(PACKING)
    return processes(count, PACKING) if count > 1 else nullcontext(in_process)


def _moved(task: PrepareTask, folder: Path) -> PrepareTask:
    settings, batch = task
    return replace(settings, folder=folder), batch


def _layout(spool: Spool, form: FormName, max_length: int, seed: int) -> Layout:
    """Best fit lets documents share a window; some forms give each example its own window."""
    if FORMS[form].own_windows:
        lengths = spool.lengths.reshape(-1, FORMS[form].documents)
        return one_by_one(lengths, max_length=max_length, seed=seed, bucket=PAIRS_IN_BLOCK)
    return pack(spool.lengths, max_length=max_length, seed=seed)


def _examine(
    context: WorkContext,
    settings: PrepareSettings,
    tokenized: dict[str, TokenizedSplit],
    train_rows: Path,
    dataset: Artifact,
) -> dict[str, Any]:
    """The doctor's evidence about the files in the context's output."""
    tokenizer, form = ChatTokenizer.load(settings.folder), FORMS[settings.form]
    holdout = pq.read_table(dataset.path("holdout.parquet", context.scratch), columns=["id"])["id"].to_pylist()
    config = settings.folder / "config.json"
    return examine(
        Patient(
            folder=context.output,
            spools={split: tokenized[split].spool for split in SPLITS},
            train_rows=train_rows,
            tokenizer=tokenizer,
            reference=None if form.plain else reference_template(settings.folder, tokenizer, settings.chat_template),
            config=config,
            vocabulary=vocabulary_size(config.read_bytes()),
            max_length=settings.max_length,
            truncates=settings.overlong == "truncate",
            learn=settings.learn,
            by_turn=not form.plain and learns_by_turn(settings.tracer(tokenizer), form),
            holdout_ids=np.frombuffer(bytes.fromhex("".join(holdout)), np.uint8).reshape(-1, 32),
        )
    )


def _tokenizer_files(base: Artifact, scratch: Path) -> Path:
    """A folder with the base's tokenizer, template and config, without its weights."""
    required = {"tokenizer.json", "config.json"}
    missing = sorted(required - set(base.manifest.files))
    if missing:
        raise BadBase(
            f"the base has no {missing[0]}", where=str(base.address), remedy="Take a base in the Hugging Face layout."
        )
    paths = [base.path(name, scratch) for name in TOKENIZER_FILES if name in base.manifest.files]
    return paths[0].parent


def _require_examples(train: TokenizedSplit, settings: PrepareSettings) -> None:
    if not len(train.spool.lengths):
        if not len(train.dropped):
            raise BadData(
                f"no training example is left: both answers of {len(train.equal)} pairs are the same tokens",
                where="train split",
                remedy="The template trims white space and drops thoughts: give pairs whose answers differ otherwise.",
            )
        longer = longer_windows(settings.max_length, settings.context)
        raise BadData(
            f"no training example is left; {len(train.dropped)} are longer than {settings.max_length} tokens",
            where="train split",
            remedy=f"{longer.capitalize()}or shorten the examples." if longer else "Shorten the examples.",
        )


def _split_facts(index: Index, tokenized: TokenizedSplit) -> dict[str, Any]:
    """Counts of one split; the first rows of the upload that were left out or shortened are named."""
    spool = tokenized.spool
    cut = np.unique(spool.rows[spool.examples[spool.shortened > 0]])
    return {
        "examples": index.examples,
        "documents": index.documents,
        "tokens": index.tokens,
        "learned_tokens": index.learned_tokens,
        "windows": index.windows,
        "shards": len(index.shards),
        "dropped": len(tokenized.dropped),
        "dropped_rows": tokenized.dropped[:_NAMED_ROWS, 0].tolist(),
        "equal": len(tokenized.equal),
        "equal_rows": tokenized.equal[:_NAMED_ROWS].tolist(),
        "shortened": len(cut),
        "shortened_rows": cut[:_NAMED_ROWS].tolist(),
        "trimmed": tokenized.trimmed,
        "bare": tokenized.bare,
        "unasked": tokenized.unasked,
        "spelled": len(tokenized.spelled),
        "spelled_rows": tokenized.spelled[:_NAMED_ROWS].tolist(),
        "longest": tokenized.longest,
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
