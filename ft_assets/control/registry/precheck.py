"""Check uploads before they are stored: data form, fields that nothing would use, and number of distinct rows."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ft_assets.control.registry.columns import unknown_columns
from ft_assets.control.registry.kinds import Kinds, require_other_kind
from ft_assets.settings.dataset.policy import MIN_CHUNK, MIN_EXAMPLES, DatasetPolicy
from ft_assets.workers.datasets.forms.content_keys import content_keys, prompt_keys
from ft_assets.workers.datasets.forms.decode import decode_line
from ft_assets.workers.datasets.forms.guesses import MAX_SAMPLE
from ft_assets.workers.datasets.forms.meaning import Meanings
from ft_assets.workers.datasets.forms.parse import FormSettings, Parsed, parse_lines
from ft_assets.workers.datasets.forms.reasons import Reason
from ft_assets.workers.datasets.intake.chunking import chunks
from ft_assets.workers.datasets.intake.kinds import CUT, kind_of
from ft_assets.workers.datasets.intake.spool import Spool
from ft_assets.workers.datasets.reading import ROLES, Reading
from ft_assets.workers.datasets.reporting.acceptance import check_rows, empty_split, too_few
from ft_assets.workers.datasets.reporting.advice import pictures, unanswered
from ft_assets.workers.datasets.reporting.report import DatasetReport, SplitNumbers, Upload
from ft_assets.workers.datasets.split import SIDES, Split, fill_sides, sides_of, units_of
from ft_resources.errors import BadData

_UNKNOWN, _WRONG = Reason.UNKNOWN_SCHEMA.value, Reason.WRONG_TYPE.value
# Fields of turns and labels, which an upload may spell in another way.
_SPELT = re.compile(r"(.*\.(role|from|content|value)|.*\[\d+\]|label|messages|conversations)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """Facts about an upload: its number of rows, and what the tenant must know before training on them."""

    rows: int
    warnings: tuple[str, ...]


def check_uploads(spools: Sequence[Spool], policy: DatasetPolicy) -> Checked:
    """Check ``spools`` in one pass and in bounded memory.

    Raises BadData for bad rows beyond what the policy allows, for rows of different kinds of data, for answers that
    people did not like and that would be learned as good ones, for fewer than 100 different examples, and for groups or
    prompts of which none falls into a split; BadRecipe where the policy takes the answer for the kind.
    """
    form = FormSettings.of(policy)
    reading, meanings, kinds = Reading(), Meanings(form), Kinds()
    unknown: list[dict[str, Any]] = []
    different: set[bytes] = set()
    drawn = _Drawn(policy, {ROLES[spool.role] for spool in spools})
    characters = 0
    for spool in sorted(spools, key=lambda each: list(ROLES).index(each.role)):
        rows = 0
        for chunk in chunks(spool):
            parsed = parse_lines(chunk.lines, form, ended=chunk.ended)
            rows += reading.add_parsed(spool, chunk.first_row, chunk.too_long, parsed)
            meanings.add(spool.name, chunk.first_row, chunk.lines, parsed)
            kinds.add(parsed.examples)
            unknown += islice(_unknown(chunk.lines, parsed), MAX_SAMPLE - len(unknown))
            if len(different) < MIN_EXAMPLES:
                different.update(content_keys(parsed.examples).unique()[:MIN_EXAMPLES].to_pylist())
                characters += pc.sum(pc.utf8_length(parsed.examples.column("text"))).as_py() or 0
            if ROLES[spool.role] == "train":
                drawn.add(parsed.examples)
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
    report = DatasetReport(
        uploads=reading.uploads,
        policy=policy,
        form="",
        rows_read=reading.rows,
        unanswered=reading.unanswered,
        steps=[reading.step],
        splits={side.value: SplitNumbers() for side in SIDES},
    )
    try:
        check_rows(report)
    except BadData as error:
        # If only some rows have such fields, a mapping would lose the others.
        unfit = reading.bad[_UNKNOWN] + reading.bad[_WRONG]
        if unknown and 2 * unfit > reading.rows:
            raise unknown_columns(error, unknown, form, unfit=bool(reading.bad[_UNKNOWN])) from None
        raise
    require_other_kind(form, reading.forms)
    warnings = (*meanings.warnings(), *kinds.warnings(form), *pictures(report), *unanswered(report.unanswered))
    if reading.kind and len(different) < MIN_EXAMPLES:
        bad = reading.bad.total()
        again = reading.rows - bad - len(different)
        less = [f"{bad} bad"] if bad else []
        less += [f"{again} duplicates"] if again else []
        raise BadData(
            too_few(len(different), reading.rows, less),
            where=reading.uploads[0].name,
            remedy=_more_pieces(policy, characters)
            if reading.rows < MIN_EXAMPLES and all(kind_of(spool.name).format in CUT for spool in spools)
            else f"Add examples: at least {MIN_EXAMPLES} different ones are needed.",
        )
    if drawn.empty:
        counted = SplitNumbers(rows=reading.rows - reading.bad.total(), groups=drawn.units)
        raise empty_split(report.model_copy(update={"splits": {**report.splits, "train": counted}}), drawn.empty)
    return Checked(rows=reading.rows, warnings=warnings)


def _more_pieces(policy: DatasetPolicy, characters: int) -> str:
    """How to get enough pieces from a text of ``characters`` characters."""
    now = policy.text.chunk_characters
    # Pieces end at headings and paragraphs, so there are more than this; some may be left out later.
    wanted = characters // (2 * MIN_EXAMPLES)
    if wanted >= MIN_CHUNK:
        return (
            f"Cut the text into smaller pieces: text.chunk_characters in dataset.yaml is {now:,}, and {wanted:,} would "
            f"make about {2 * MIN_EXAMPLES}. More text helps, too."
        )
    return (
        f"Add text: there are {characters:,} characters, and {MIN_EXAMPLES} pieces need at least "
        f"{2 * MIN_EXAMPLES * MIN_CHUNK:,}, with text.chunk_characters ({now:,}) at its least, {MIN_CHUNK}."
    )


class _Drawn:
    """Which splits the groups or prompts of the uploaded rows fall into, until each split has one.

    Curation draws the same, from rows that were not left out. It also scrubs: then prompts are not the same yet, and
    nothing is said.
    """

    def __init__(self, policy: DatasetPolicy, roles: set[str]) -> None:
        self._settings, self._known = policy.split, policy.personal_data.action != "scrub"
        self._drawn = {"validation": "validation" not in roles, "holdout": "holdout" not in roles}
        given = {side for side, drawn in self._drawn.items() if not drawn} | ({Split.TRAIN} if policy.mix else set())
        self._missing = {side.value for side in SIDES} - given
        self._rows: Counter[int] = Counter()

    def add(self, examples: pa.RecordBatch) -> None:
        if not self._known or not self._missing or not examples.num_rows:
            return
        found, rows = np.unique(units_of(prompt_keys(examples), examples.column("group")), return_counts=True)
        self._rows.update(dict(zip(found.tolist(), rows.tolist(), strict=True)))
        self._missing -= _named(sides_of(found, self._settings, **self._drawn))

    @property
    def empty(self) -> str:
        """The first split without any row; "" if there is none, or no row was read."""
        if not self._rows or not self._missing:
            return ""
        units = np.repeat(np.array(list(self._rows), np.uint64), list(self._rows.values()))
        drawn = sides_of(units, self._settings, **self._drawn)
        missing = self._missing - _named(fill_sides(units, drawn, self._settings, **self._drawn))
        return next((side.value for side in SIDES if side.value in missing), "")

    @property
    def units(self) -> int:
        """Groups, or different prompts; all of them where a split is empty."""
        return len(self._rows)


def _named(sides: np.ndarray) -> set[str]:
    return {SIDES[side].value for side in np.unique(sides).tolist()}


def _unknown(lines: bytes, parsed: Parsed) -> Iterator[dict[str, Any]]:
    """The rows of a chunk whose fields fit no form, or whose turns or labels are spelt as no form has them."""
    places = [
        bad["row"] - 1
        for bad in parsed.bad.to_pylist()
        if bad["reason"] == _UNKNOWN or (bad["reason"] == _WRONG and _SPELT.fullmatch(bad["field"]))
    ]
    if places:
        # The rest after the last of them stays in one piece.
        pieces = lines.split(b"\n", places[-1] + 1)
        yield from (decode_line(pieces[place], ended=True) for place in places)
