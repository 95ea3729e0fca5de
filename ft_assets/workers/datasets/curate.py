"""The work of ``dataset``: uploads in, three Parquet files and the report out."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from ft_assets.settings.dataset.policy import DatasetPolicy, policy_of
from ft_assets.workers.datasets.engine.cache import ChunkCache
from ft_assets.workers.datasets.engine.chunks_on_ray import run_chunks_on_ray
from ft_assets.workers.datasets.engine.local import CURATION, engine_of, process_count, start_early
from ft_assets.workers.datasets.held_out import FILE, HeldOut
from ft_assets.workers.datasets.intake.spools import spools_of
from ft_assets.workers.datasets.pipeline import Inputs, Means, curate_upload, needs_processes
from ft_assets.workers.datasets.reporting.page import render_page
from ft_assets.workers.datasets.screening.encoding import Encoder
from ft_assets.workers.datasets.screening.names import NameModel
from ft_assets.workers.datasets.screening.toxicity import classify
from ft_assets.workers.datasets.similarity.items import ItemIndex
from ft_assets.workers.datasets.writing import MixSource
from ft_assets.workers.suites.asked import Asked
from ft_assets.workers.suites.suites import asked_items
from ft_resources.artifacts import Artifact
from ft_resources.canonical import canonical_json
from ft_resources.environment import whole_number
from ft_resources.errors import BadData
from ft_resources.worker_context import WorkContext, WorkResult

_MEMORY_MB = 2048
# Models that read every text manage a hundred texts of 500 characters a second on a core.
_SECONDS, _SECONDS_PER_GIB = 3600, 86_400


def curate(context: WorkContext) -> WorkResult:
    """Clean and split the input ``raw`` by the parameter ``policy``.

    Leaves ``train.parquet``, ``validation.parquet`` and ``holdout.parquet`` (see ``writing.COLUMNS``; rows in the
    upload's order; equal input, equal bytes), ``held_out.arrow`` and ``report/report.json`` and ``.html``. Further
    inputs: ``held_out`` (what earlier versions held out), ``suite:<key>`` each, ``classifier``, ``encoder``,
    ``name_model``, ``mix:<key>`` each. Facts: ``form``, ``rows`` by split, ``dropped`` by reason, ``length_histogram``
    (characters), ``rows_read``, ``warnings``, ``held`` (why a person must review it first), and ``labels`` if the
    answers are labels. Raises BadData (file, row, field); if curation takes too long, ends the worker with it.
    """
    policy = policy_of(context.params["policy"])
    raw = context.input("raw")
    if process_count() > 1 and needs_processes(sum(file.size for file in raw.manifest.files.values())):
        start_early()
    suites = context.inputs("suite:")
    with ThreadPoolExecutor(1, "spools") as beside:
        # Verifying an upload means hashing it, which releases the interpreter lock.
        spools = beside.submit(spools_of, raw, policy, context.scratch)
        index = _index(suites, context.scratch) if suites else None
    inputs = Inputs(
        spools=spools.result(),
        policy=policy,
        index=index,
        suites=tuple(suites),
        suite_digests=tuple(suite.digest for suite in suites.values()),
        classify=_classifier(context, policy),
        encoder=_encoder(context, policy),
        asked=_asked(suites, context.scratch) if policy.contamination.paraphrases else (),
        names=_names(context, policy),
        mix=tuple(
            MixSource(dataset=key, train=artifact.path("train.parquet", context.scratch))
            for key, artifact in ((each.dataset, context.input(f"mix:{each.dataset}")) for each in policy.mix)
        ),
        held_out=_held_out(context),
    )
    scratch = context.scratch / "curation"
    scratch.mkdir()
    means = Means(
        scratch=scratch,
        memory_bytes=whole_number("FT_CURATION_MEMORY_MB", _MEMORY_MB, at_least=512) << 20,
        processes=process_count(),
        cache=ChunkCache(store_url=context.store.url, tenant=context.spec.address.tenant, layout=context.store.layout),
        run_chunks=run_chunks_on_ray if engine_of(CURATION) == "ray" else None,
        progress=lambda phase, rows: context.progress(phase, done=rows),
    )
    read = [*(each.path for each in inputs.spools), *(each.train for each in inputs.mix)]
    seconds = seconds_for(sum(path.stat().st_size for path in read))
    with context.at_most(seconds, _too_slow(context.spec.label, seconds)):
        report, exhibits = curate_upload(inputs, context.output, means)
    folder = context.output / "report"
    folder.mkdir()
    (folder / "report.json").write_bytes(canonical_json(report.model_dump(mode="json")))
    (folder / "report.html").write_text(render_page(report, exhibits, context.spec.label), encoding="utf-8")
    return WorkResult(
        folder=context.output,
        facts={
            "form": report.form,
            "rows": {name: numbers.rows for name, numbers in report.splits.items()},
            "dropped": report.dropped,
            "length_histogram": report.length_histogram.model_dump(mode="json"),
            "rows_read": report.rows_read,
            "warnings": report.warnings,
            "held": report.held,
            **({"labels": report.labels.model_dump(mode="json")} if report.labels else {}),
        },
    )


def seconds_for(size: int) -> int:
    """The time that curation may take for rows of ``size`` bytes, once they are read from their files."""
    return whole_number("FT_CURATION_SECONDS", _SECONDS + (_SECONDS_PER_GIB * size >> 30), at_least=1)


def _too_slow(label: str, seconds: int) -> BadData:
    return BadData(
        f"curating the data takes longer than the {seconds:,} s allowed for its size",
        where=label,
        remedy="Split it into several datasets, give it more cores, or leave out the policy's models; the platform's "
        "operator can allow more by FT_CURATION_SECONDS.",
    )


def _held_out(context: WorkContext) -> HeldOut:
    """What earlier versions held out; a dataset's first version has no such input."""
    given = context.input("held_out") if "held_out" in context.spec.inputs else None
    return HeldOut.open(given.path(FILE, context.scratch) if given else None)


def _index(suites: dict[str, Artifact], scratch: Path) -> Path:
    path = scratch / "suites.items"
    ItemIndex.build(_asked(suites, scratch), path)
    return path


def _asked(suites: dict[str, Artifact], scratch: Path) -> list[tuple[str, Sequence[Asked]]]:
    return [(key, asked_items(suite.folder(scratch))) for key, suite in suites.items()]


def _encoder(context: WorkContext, policy: DatasetPolicy) -> Encoder | None:
    if policy.contamination.paraphrases is None:
        return None
    given = context.input("encoder")
    return Encoder(given.folder(context.scratch), given.facts["pooling"])


def _names(context: WorkContext, policy: DatasetPolicy) -> NameModel | None:
    if policy.personal_data.names is None:
        return None
    given = context.input("name_model")
    folder = given.folder(context.scratch)
    return NameModel(folder=str(folder), digest=given.digest, language=given.facts["language"])


def _classifier(context: WorkContext, policy: DatasetPolicy) -> Any:
    if policy.toxicity is None:
        return None
    folder, labels = context.input("classifier").folder(context.scratch), policy.toxicity.labels

    def scores(texts: Sequence[str]) -> np.ndarray:
        return classify(texts, folder, labels)

    return scores
