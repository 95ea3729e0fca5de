"""Fixtures of the dataset tests: a store, uploads made of rows, and curation without Dagster."""

import json
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ft_assets.control.identity import dataset_request
from ft_assets.control.identity.held_out import settle_held_out
from ft_assets.control.registry.versions import DatasetVersion, add_dataset_version
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets import reading
from ft_assets.workers.datasets.curate import curate
from ft_assets.workers.datasets.engine.cache import ChunkCache
from ft_assets.workers.datasets.intake.chunking import TARGET_BYTES, chunks
from ft_assets.workers.datasets.intake.snapshot import take_snapshots
from ft_assets.workers.datasets.intake.spool import Role, spool
from ft_assets.workers.datasets.pipeline import Inputs, Means, curate_upload
from ft_assets.workers.datasets.reporting.report import DatasetReport, Exhibit
from ft_assets.workers.suites.suites import add_suite
from ft_resources.artifacts import Artifact, Artifacts, InputRef
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from ft_resources.work import WorkRequest
from ft_resources.worker_context import WorkContext
from tests.choice_suite import write_choice_suite
from tests.made import spec_of

Row = dict[str, Any]
WriteRows = Callable[..., Path]
Add = Callable[..., DatasetVersion]
SIDES = ("train", "validation", "holdout")
_WORDS = (
    "harbour lantern granite willow saddle copper meadow thunder barrel velvet orchard pebble anchor candle timber "
    "ribbon falcon marble kettle basket feather hollow ladder mirror needle oyster parcel quarry raven shovel tunnel "
    "umbrella violin wagon yarrow zephyr acorn bridge cellar dagger ember furnace glacier hammer island jungle knuckle"
)


def pair(number: int, **fields: Any) -> Row:
    """A good prompt/completion row, different for each number."""
    return {"prompt": f"What is {number}?", "completion": f"It is the number {number}.", **fields}


def chat(*roles: str) -> Row:
    """A messages row with one turn for each role."""
    return {"messages": [{"role": role, "content": f"turn {index}"} for index, role in enumerate(roles)]}


def prose(seed: object, words: int = 40) -> str:
    """Words drawn by ``seed``: two seeds share no 13 words in a row."""
    draw = random.Random(f"prose {seed}")
    known = _WORDS.split()
    return " ".join(draw.choice(known) for _ in range(words)).capitalize() + "."


def told(number: int, **fields: Any) -> Row:
    """A row long enough to be compared by 13-grams, unlike that of any other number."""
    return {"prompt": f"Tell story {number}: {prose(('p', number), 16)}", "completion": prose(number), **fields}


def nearly(row: Row) -> Row:
    """``row`` with a word more: alike, and not the same."""
    return {**row, "completion": f"{row['completion']} Done."}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"), create=True)


@pytest.fixture
def artifacts(store: Store) -> Artifacts:
    return Artifacts(store)


@pytest.fixture
def write(tmp_path: Path) -> WriteRows:
    """Write rows (objects, or raw bytes for what JSON cannot say) as lines of an upload."""

    def write_rows(rows: Sequence[Row | bytes], name: str = "data.jsonl") -> Path:
        path = tmp_path / name
        lines = [row if isinstance(row, bytes) else json.dumps(row, ensure_ascii=False).encode() for row in rows]
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return path

    return write_rows


@pytest.fixture
def add(store: Store) -> Add:
    def add_file(
        file: Path | Sequence[Path], policy: DatasetPolicy | None = None, name: str = "facts", **sides: Any
    ) -> DatasetVersion:
        return add_dataset_version(
            store, file, tenant="acme", name=name, policy=policy or DatasetPolicy(), actor="tester", **sides
        )

    return add_file


def register_suite(store: Store, folder: Path, key: str, items: Sequence[Row]) -> InputRef:
    """Suite ``key`` with ``items``: a question, its choices and the right one's index each."""
    return add_suite(store, write_choice_suite(folder, key.partition(".")[0], items), key, "tester").ref


@dataclass(frozen=True, kw_only=True)
class Curated:
    """What curation left in ``folder``, read for tests."""

    folder: Path
    report: DatasetReport
    exhibits: list[Exhibit]

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        return {side: pq.read_table(self.folder / f"{side}.parquet") for side in SIDES}

    @cached_property
    def places(self) -> dict[tuple[str, int], str]:
        """(file, row) of every kept row to its side."""
        return {
            (file, row): side
            for side, table in self.tables.items()
            for file, row in zip(table["file"].to_pylist(), table["row"].to_pylist(), strict=True)
        }

    @cached_property
    def rows(self) -> dict[tuple[str, int], Row]:
        """(file, row) of every kept row to the row."""
        return {(row["file"], row["row"]): row for table in self.tables.values() for row in table.to_pylist()}

    @property
    def sides(self) -> dict[str, str]:
        """A row's id to its side."""
        return {key: side for side, table in self.tables.items() for key in table["id"].to_pylist()}

    @property
    def sides_of_groups(self) -> dict[str, set[str]]:
        """The sides that have rows of a group."""
        found: dict[str, set[str]] = {}
        for place, row in self.rows.items():
            found.setdefault(row["group"], set()).add(self.places[place])
        return found

    @property
    def bytes(self) -> dict[str, bytes]:
        return {side: (self.folder / f"{side}.parquet").read_bytes() for side in SIDES}

    def found(self, step: Any) -> dict[str, int]:
        """Rows by reason (and subject) of the findings of ``step``."""
        return {
            f"{each.reason}:{each.subject}" if each.subject else each.reason: each.count
            for each in self.report.findings(step)
        }

    def noted(self, step: Any, reason: str) -> list[tuple[str, int]]:
        """(file, row) of the rows that a finding names."""
        return [
            (note.place.file, note.place.row)
            for each in self.report.findings(step)
            if each.reason == reason
            for note in each.notes
        ]


def every_row_is_accounted_for(made: Curated) -> None:
    report = made.report
    rows = report.rows_read
    for step in report.steps:
        assert step.rows_in == rows
        removed = sum(each.count for each in step.findings if each.action == "removed")
        mixed = sum(each.rows for each in report.mixed) if step.step == "mix" else 0
        rows = step.rows_out
        assert rows == step.rows_in - removed + mixed
    assert rows == report.examples == sum(table.num_rows for table in made.tables.values())


def report_of(artifact: Artifact) -> DatasetReport:
    return DatasetReport.model_validate_json(artifact.read("report/report.json"))


CurateFiles = Callable[..., Curated]


@pytest.fixture
def curated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CurateFiles:
    """Curate uploads in this process, without a store; ``chunk_bytes`` makes chunks of another size."""

    def run(
        files: Path | Sequence[Path] | Mapping[Role, Sequence[Path]],
        policy: DatasetPolicy | None = None,
        *,
        chunk_bytes: int | None = None,
        cache: ChunkCache | None = None,
        processes: int = 1,
        run_chunks: reading.RunChunks | None = None,
        **inputs: Any,
    ) -> Curated:
        monkeypatch.setattr(reading, "chunks", partial(chunks, target_bytes=chunk_bytes or TARGET_BYTES))
        policy = policy or DatasetPolicy()
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        if isinstance(files, Path):
            files = [files]
        given: Mapping[Role, Sequence[Path]] = files if isinstance(files, Mapping) else {"upload": files}
        (folder / "in").mkdir()
        uploads = take_snapshots(given, folder / "in")
        spools = [
            spool(each.path, each.name, folder / "spools", role=each.role, text=policy.text, sha256=each.sha256)
            for each in uploads
        ]
        (folder / "out").mkdir()
        (folder / "scratch").mkdir()
        means = Means(scratch=folder / "scratch", cache=cache, processes=processes, run_chunks=run_chunks)
        report, exhibits = curate_upload(Inputs(spools=spools, policy=policy, **inputs), folder / "out", means)
        return Curated(folder=folder / "out", report=report, exhibits=exhibits)

    return run


def run_curation(
    artifacts: Artifacts, key: str, scratch: Path, inputs: Mapping[str, InputRef] | None = None
) -> Artifact:
    """What a worker does for ``dataset``: curate in a scratch folder of its own and publish, after the versions before.
    ``inputs`` are further."""

    def made(request: WorkRequest) -> Artifact:
        return artifacts.find(request.address) or _publish(artifacts, request, scratch, inputs or {})

    settle_held_out(artifacts, key, made, actor="tester")
    return _publish(artifacts, dataset_request(artifacts, key), scratch, inputs or {})


def _publish(artifacts: Artifacts, request: WorkRequest, scratch: Path, inputs: Mapping[str, InputRef]) -> Artifact:
    named = {**request.inputs, **inputs}
    spec = spec_of(artifacts.store, request).model_copy(update={"inputs": named})
    context = WorkContext(spec, artifacts.store, Path(tempfile.mkdtemp(dir=scratch)))
    result = curate(context)
    return artifacts.publish(
        request.address,
        result.folder,
        writer="w0001",
        identity=request.identity,
        inputs=named,
        facts=result.facts,
        actor="tester",
    )
