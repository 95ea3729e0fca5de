"""The steps of curation in their order, from spools to three Parquet files and the report."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets import steps
from ft_assets.workers.datasets.contamination import check_contamination
from ft_assets.workers.datasets.decisions import Decisions
from ft_assets.workers.datasets.duplicates import remove_duplicates
from ft_assets.workers.datasets.engine.cache import ChunkCache
from ft_assets.workers.datasets.engine.chunks import run_chunk
from ft_assets.workers.datasets.engine.local import Mapper, in_process, processes
from ft_assets.workers.datasets.engine.prepare import PrepareSettings
from ft_assets.workers.datasets.held_out import FILE, HeldOut, remember
from ft_assets.workers.datasets.intake.spool import Spool
from ft_assets.workers.datasets.mixing import clean_sources
from ft_assets.workers.datasets.own_holdout import remove_holdout_overlap
from ft_assets.workers.datasets.paraphrases import find_paraphrases
from ft_assets.workers.datasets.prepared import PreparedRows
from ft_assets.workers.datasets.quality.draw import lowest
from ft_assets.workers.datasets.quality.language import SAMPLE, by_count, detect_languages
from ft_assets.workers.datasets.reading import Reading, RunChunks, read_all
from ft_assets.workers.datasets.reporting.acceptance import accept, check_rows
from ft_assets.workers.datasets.reporting.report import DatasetReport, Exhibit, SplitNumbers
from ft_assets.workers.datasets.screening.encoding import Encoder
from ft_assets.workers.datasets.screening.names import NameModel
from ft_assets.workers.datasets.sides import decide_sides, keys_of
from ft_assets.workers.datasets.split import HOLDOUT, SIDES, TRAIN
from ft_assets.workers.datasets.writing import MixSource, write_sides
from ft_assets.workers.suites.asked import Asked

# Below this, starting processes costs more than it saves.
_SMALL_BYTES = 8 << 20
_PROCESS_BYTES = 450 << 20


@dataclass(frozen=True, kw_only=True)
class Means:
    """The resources that curation may use; they do not change the result.

    Args:
        scratch: an empty folder on a disk with room for about twice the rows.
        memory_bytes: limit for all processes together, memory maps excluded.
        processes: how many may run at once.
        cache: for prepared chunks; None for no cache.
        run_chunks: runs chunks elsewhere (Ray); None for processes on this machine.
        progress: called with (phase, rows done).
    """

    scratch: Path
    memory_bytes: int = 2 << 30
    processes: int = 1
    cache: ChunkCache | None = None
    run_chunks: RunChunks | None = None
    progress: Callable[[str, int], None] = lambda _phase, _rows: None


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What curation reads besides the spools.

    Args:
        spools: of the uploaded files.
        policy: with suites resolved to keys.
        index: the suites' items (``items.ItemIndex``), None if there are no suites.
        suites: their keys, in the index's order.
        suite_digests: their digests, in the same order.
        classify: scores of texts by the policy's classifier; None if it names none.
        encoder: the policy's encoder for paraphrases; None if it names none.
        asked: with an encoder, the items of each suite.
        names: the policy's name model; None if it names none.
        mix: train rows of other datasets, in the policy's order.
        held_out: what earlier versions' holdouts held.
    """

    spools: Sequence[Spool]
    policy: DatasetPolicy
    index: Path | None = None
    suites: tuple[str, ...] = ()
    suite_digests: tuple[str, ...] = ()
    classify: steps.Classify | None = None
    encoder: Encoder | None = None
    asked: Sequence[tuple[str, Sequence[Asked]]] = ()
    names: NameModel | None = None
    mix: tuple[MixSource, ...] = ()
    held_out: HeldOut = field(default_factory=lambda: HeldOut.open(None))


def needs_processes(size: int) -> bool:
    """Whether files of this many bytes justify starting processes."""
    return size >= _SMALL_BYTES


def curate_upload(inputs: Inputs, output: Path, means: Means) -> tuple[DatasetReport, list[Exhibit]]:
    """Write ``train``, ``validation`` and ``holdout.parquet`` and ``held_out.arrow`` to ``output``; returns the report
    and the rows to show.

    Raises BadData if the upload must not be used; the contents of ``output`` are then invalid.
    """
    policy = inputs.policy
    settings = PrepareSettings(
        policy=policy.model_dump(mode="json"),
        index=str(inputs.index) if inputs.index else None,
        suites=inputs.suite_digests,
        names=inputs.names,
    )
    with ExitStack() as stack:
        large = needs_processes(sum(spool.path.stat().st_size for spool in inputs.spools))
        count = 1 if not large else max(1, min(means.processes, means.memory_bytes // _PROCESS_BYTES))
        mapper: Mapper = in_process if count == 1 else stack.enter_context(processes(count))
        run: RunChunks = means.run_chunks or (lambda tasks: mapper(run_chunk, tasks))
        reading = read_all(
            inputs.spools,
            settings,
            run,
            means.scratch,
            cache=means.cache,
            progress=lambda rows: means.progress("reading", rows),
        )
        kind = reading.kind
        check_rows(_report(reading, inputs, kind))
        decisions = Decisions(PreparedRows(reading.chunks), policy.personal_data, inputs.names)
        decisions.steps.append(reading.step)
        sides = _decide(decisions, inputs, means, mapper)
        holdout = np.flatnonzero(decisions.kept & (sides == HOLDOUT))
        remember(inputs.held_out, decisions.rows.by_chunk(holdout), policy, mapper, output / FILE)
        means.progress("writing", decisions.count)
        with ThreadPoolExecutor(1, "languages") as beside:
            languages = beside.submit(_languages, decisions.rows, np.flatnonzero(decisions.kept), mapper)
            leaks, memory = _leaks(inputs, means.scratch), HeldOut.open(output / FILE)
            mix, lost = clean_sources(inputs.mix, decisions, sides, policy, kind, leaks, memory, means.scratch)
            # Meanwhile: writing the files takes one and a half cores.
            written = write_sides(decisions, sides, policy, mix, output)
    report = _report(reading, inputs, kind).model_copy(
        update={
            "steps": decisions.steps,
            "splits": written.splits,
            "length_histogram": written.lengths,
            "labels": written.labels,
            "languages": languages.result(),
            "mixed": written.mixed,
            "warnings": [*decisions.warnings, *lost, *written.warnings],
            "largest_group_rows": written.largest_group_rows,
        }
    )
    decisions.show("split", "kept", np.flatnonzero(decisions.kept & (sides == TRAIN)))
    return accept(report), decisions.exhibits


def _decide(decisions: Decisions, inputs: Inputs, means: Means, mapper: Mapper) -> np.ndarray:
    """Run the steps over all rows; the side of each row, also of dropped ones."""
    policy, rows = inputs.policy, decisions.count
    means.progress("personal data", rows)
    steps.report_personal(decisions, policy)
    means.progress("duplicates", rows)
    keys = keys_of(decisions.rows)
    copies = remove_duplicates(
        decisions, policy, keys, means.scratch / "joins", means.memory_bytes // 2, max(1, means.processes)
    )
    means.progress("contamination", rows)
    check_contamination(decisions, policy, inputs.suites, inputs.index)
    if inputs.encoder:
        means.progress("paraphrases", rows)
        find_paraphrases(decisions, policy, inputs.encoder, inputs.asked)
    steps.check_quality(decisions, policy)
    if inputs.classify:
        means.progress("toxicity", rows)
        steps.check_toxicity(decisions, policy, inputs.classify)
    sides = decide_sides(decisions, keys, copies, policy, inputs.held_out)
    means.progress("overlap with the holdout", rows)
    remove_holdout_overlap(decisions, sides, policy, means.scratch, mapper)
    steps.balance_training(decisions, sides, policy)
    return sides


def _leaks(inputs: Inputs, scratch: Path) -> list[tuple[Path, bool]]:
    """The indices of what must not be trained on, each with whether this curation made it."""
    return [(scratch / "holdout.grams", True), *([(inputs.index, False)] if inputs.index else [])]


def _languages(rows: PreparedRows, kept: np.ndarray, map_texts: Mapper) -> dict[str, int]:
    texts = rows.texts_at(kept[lowest(rows.content_at(kept), SAMPLE)])
    # Enough pieces for a few processes; each process loads the model.
    pieces = [texts.slice(start, SAMPLE // 4) for start in range(0, len(texts), SAMPLE // 4)]
    return by_count(language for found in map_texts(detect_languages, pieces) for language in found)


def _report(reading: Reading, inputs: Inputs, kind: str) -> DatasetReport:
    """The report with what is known after reading."""
    return DatasetReport(
        uploads=reading.uploads,
        policy=inputs.policy,
        form=kind,
        forms=dict(sorted(reading.forms.items())),
        rows_read=reading.rows,
        unused_fields=dict(sorted(reading.unused.items())),
        normalized=reading.normalized,
        unanswered=reading.unanswered,
        steps=[reading.step],
        splits={side.value: SplitNumbers() for side in SIDES},
        personal_data=dict(sorted(reading.personal.items())),
        suites=list(inputs.suites),
    )
