"""From uploaded files to prepared chunks, and the report's numbers on reading."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ft_assets.settings.catalogue.forms import FORMS, ROW_FORMS
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.workers.datasets.engine.cache import ChunkCache
from ft_assets.workers.datasets.engine.chunks import ChunkResult, ChunkTask
from ft_assets.workers.datasets.engine.prepare import PrepareSettings
from ft_assets.workers.datasets.forms.parse import Parsed, notes_of_parsed
from ft_assets.workers.datasets.forms.reasons import Reason
from ft_assets.workers.datasets.intake.chunking import ROW_BYTES, chunks
from ft_assets.workers.datasets.intake.spool import Spool
from ft_assets.workers.datasets.prepared import PreparedChunk
from ft_assets.workers.datasets.reporting.report import LISTED_NOTES, Finding, Note, Place, Role, StepReport, Upload
from ft_resources.errors import BadData

RunChunks = Callable[[Iterator[ChunkTask]], Iterator[ChunkResult]]
ROLES: dict[str, Role] = {"holdout": "holdout", "validation": "validation", "upload": "train"}
"""Role of a spool to role in the report, in the order in which rows are taken: of equal rows the first is kept, and a
row set aside for measuring must stay there."""


@dataclass(kw_only=True)
class Reading:
    """Counts of the rows read, summed over all files, of which ``first`` is the name of the first."""

    first: str = ""
    chunks: list[PreparedChunk] = field(default_factory=list)
    uploads: list[Upload] = field(default_factory=list)
    rows: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    bad_notes: dict[str, list[Note]] = field(default_factory=dict)
    forms: Counter[str] = field(default_factory=Counter)
    unused: Counter[str] = field(default_factory=Counter)
    personal: Counter[str] = field(default_factory=Counter)
    normalized: int = 0
    unanswered: int = 0

    @property
    def findings(self) -> list[Finding]:
        """The bad rows, by reason."""
        return [
            Finding(reason=reason, action="removed", count=count, notes=self.bad_notes[reason])
            for reason, count in sorted(self.bad.items())
        ]

    @property
    def kind(self) -> str:
        """What the examples teach. Raises BadData if they teach different things."""
        kinds: Counter[str] = Counter()
        for form, rows in self.forms.items():
            kinds[ROW_FORMS[form].form.name] += rows
        if len(kinds) > 1:
            counted = ", ".join(f"{rows} {kind}" for kind, rows in kinds.most_common())
            raise BadData(
                f"the rows are of different kinds of data ({counted})",
                where=self.first,
                remedy=f"Make a dataset of each kind: {_learners()}.",
            )
        return next(iter(kinds), "chat")

    @property
    def step(self) -> StepReport:
        """Reading, as the report's first step."""
        return StepReport(step="read", rows_in=self.rows, rows_out=self.rows - self.bad.total(), findings=self.findings)

    def add(self, spool: Spool, first_row: int, too_long: Sequence[int], result: ChunkResult) -> int:
        """Count one prepared chunk; returns its number of rows."""
        if result.examples:
            self.chunks.append(
                PreparedChunk(
                    path=result.path,
                    examples=result.examples,
                    file=spool.name,
                    role=ROLES[spool.role],
                    row_offset=first_row - 1,
                )
            )
        self.personal.update(result.notes["personal"])
        return self._count(spool, first_row, too_long, result.notes)

    def add_parsed(self, spool: Spool, first_row: int, too_long: Sequence[int], parsed: Parsed) -> int:
        """Count one chunk that was only parsed; returns its number of rows."""
        return self._count(spool, first_row, too_long, notes_of_parsed(parsed))

    def _count(self, spool: Spool, first_row: int, too_long: Sequence[int], notes: dict[str, Any]) -> int:
        self.first = self.first or spool.name
        offset = first_row - 1
        self.bad.update({Reason.TOO_LONG.value: len(too_long)} if too_long else {})
        for row in too_long:
            self._note(spool, offset + row, Reason.TOO_LONG, f"the row is longer than {ROW_BYTES >> 20} MiB")
        self.bad.update(notes["bad_rows"])
        for bad in notes["bad"]:
            detail = f"{bad['field']}: {bad['problem']}" if bad["field"] else bad["problem"]
            self._note(spool, offset + bad["row"], bad["reason"], detail)
        rows: int = notes["rows"] + len(too_long)
        self.rows += rows
        self.forms.update(notes["forms"])
        self.unused.update(notes["unused"])
        self.normalized += notes["normalized"]
        self.unanswered += notes["unanswered"]
        return rows

    def _note(self, spool: Spool, row: int, reason: str, detail: str) -> None:
        listed = self.bad_notes.setdefault(reason, [])
        if len(listed) < LISTED_NOTES:
            listed.append(Note(place=Place(file=spool.name, row=row), detail=detail))


def _learners() -> str:
    """Which methods suit which data, such as ``chat data are for sft``."""
    by_form = {name: [each.name for each in METHODS.values() if each.form.name == name] for name in FORMS}
    return "; ".join(f"{form} data are for {' and '.join(methods)}" for form, methods in by_form.items())


def read_all(
    spools: Sequence[Spool],
    settings: PrepareSettings,
    run: RunChunks,
    scratch: Path,
    *,
    cache: ChunkCache | None = None,
    progress: Callable[[int], None] = lambda _rows: None,
) -> Reading:
    """Prepare every chunk of ``spools`` with ``run``. ``progress`` is called with the number of rows done."""
    reading = Reading()
    for spool in sorted(spools, key=lambda each: list(ROLES).index(each.role)):
        folder = scratch / "chunks" / spool.role / spool.name
        folder.mkdir(parents=True)
        given: list[tuple[int, tuple[int, ...]]] = []

        def tasks(spool: Spool = spool, folder: Path = folder, given: list[Any] = given) -> Iterator[ChunkTask]:
            for number, chunk in enumerate(chunks(spool)):
                given.append((chunk.first_row, chunk.too_long))
                yield ChunkTask(
                    source=str(spool.path),
                    start=chunk.start,
                    size=0 if chunk.too_long else len(chunk.lines),
                    ended=chunk.ended,
                    settings=settings,
                    target=str(folder / f"{number:06d}.arrow"),
                    cache=cache,
                )

        rows = 0
        for number, result in enumerate(run(tasks())):
            rows += reading.add(spool, *given[number], result)
            progress(reading.rows)
        reading.uploads.append(
            Upload(
                name=spool.name,
                role=ROLES[spool.role],
                size=spool.source_size,
                sha256=spool.source_sha256,
                rows=rows,
                pictures=spool.pictures,
            )
        )
    return reading
