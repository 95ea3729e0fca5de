"""The findings as the page shows them: where, what, why, and what undoes it."""

from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup, escape

from ft_assets.workers.datasets.reporting.bad_fields import field_and_problem
from ft_assets.workers.datasets.reporting.differences import (
    cut,
    cut_middle,
    mark_differences,
    mark_placeholders,
    same_but_for_looks,
)
from ft_assets.workers.datasets.reporting.reasons import reason_words
from ft_assets.workers.datasets.reporting.report import (
    NEAR_SHOWN,
    Action,
    DatasetReport,
    Exhibit,
    Finding,
    Note,
    Place,
    Step,
    StepReport,
)
from ft_assets.workers.datasets.reporting.undo import undo_of

_SHOWN_ROWS = 60
_SHOWN_DETAILS = 30
# Details of at most this many rows are shown without a click.
_OPEN_DETAILS = 3
SHOWN_EXHIBITS = 3
_NAME = 120
_LEAKS = ("contamination", "own_holdout")
# Reasons that are visible at a text's end.
_ENDS = ("truncated", "repetitive", "long")
PERSONAL = {
    "card": "payment cards",
    "iban": "bank accounts (IBAN)",
    "phone": "phone numbers",
    "email": "e-mail addresses",
    "ip": "IP addresses",
    "secret": "keys, tokens and passwords",
    "id": "national and medical numbers",
    "name": "names of people",
    "place": "addresses and places",
}


def findings_of(
    report: DatasetReport, steps: Sequence[StepReport], actions: tuple[Action, ...], exhibits: Sequence[Exhibit]
) -> list[dict[str, Any]]:
    """Each finding with one of ``actions``: its wording, rows, details, examples and what undoes it."""
    found = []
    for step in steps:
        for finding in step.findings:
            if finding.action in actions and finding.count:
                pairs, details = _pairs(report, step.step, finding, exhibits), _details(report, step.step, finding)
                found.append(
                    {
                        "words": reason_words(finding.reason),
                        "subject": short(PERSONAL.get(finding.subject, finding.subject)),
                        "action": finding.action,
                        "count": finding.count,
                        "rows": _rows(report, finding),
                        "details": details,
                        "open": len(details) <= _OPEN_DETAILS and not pairs,
                        "undo": undo_of(step.step, finding, report),
                        "exhibits": pairs[:SHOWN_EXHIBITS],
                        "more_exhibits": pairs[SHOWN_EXHIBITS:],
                    }
                )
    return found


def _rows(report: DatasetReport, finding: Finding) -> list[tuple[str, str]]:
    """The finding's rows by file, such as ``rows 3–5, 9``; the file is "" if there is only one."""
    named = finding.notes[:_SHOWN_ROWS]
    files: dict[str, list[int]] = {}
    for note in named:
        files.setdefault(note.place.file, []).append(note.place.row)
    found = [
        (short(file) if len(report.uploads) > 1 else "", f"{'rows' if len(rows) > 1 else 'row'} {row_ranges(rows)}")
        for file, rows in files.items()
    ]
    if found and finding.count > len(named):
        found[-1] = (found[-1][0], found[-1][1] + ", …")
    return found


def _details(report: DatasetReport, step: Step, finding: Finding) -> list[tuple[str, str, str]]:
    """Row, detail and similarity, for the notes that have more than a row."""
    notes = [note for note in finding.notes if note.detail or note.other][:_SHOWN_DETAILS]
    if step == "read":
        notes = [_as_uploaded(note, report) for note in notes]
    stayed = ", which stayed" if step == "duplicates" and finding.action == "removed" else ""
    return [(place_of(report, note.place), _about(note, stayed), _percent(note.similarity)) for note in notes]


def _as_uploaded(note: Note, report: DatasetReport) -> Note:
    """The note of a bad row with the upload's own name of the field."""
    field, problem = field_and_problem(note.detail, report.policy)
    return note.model_copy(update={"detail": f"{field}: {problem}" if field else problem})


def place_of(report: DatasetReport, place: Place) -> str:
    """Where a row is, for people: with its file if there are several."""
    if place.file in report.suites:
        return f"item {place.row:,} of {place.file}"
    named = len(report.uploads) > 1 or not place.row
    return str(Place(file=short(place.file), row=place.row)) if named else f"row {place.row:,}"


def _about(note: Note, stayed: str) -> str:
    if note.other is None:
        return note.detail
    other = f"row {note.other.row:,}" if note.other.file == note.place.file else str(note.other)
    return f"{note.detail}; like {other}" if note.detail else f"like {other}{stayed}"


def _percent(similarity: float | None) -> str:
    # 99.96 % is not 100 %: near-duplicates are not exact duplicates.
    if similarity is None:
        return ""
    return "100 %" if similarity == 1 else f"{min(similarity, 0.999):.1%}".replace("%", " %")


def _pairs(report: DatasetReport, step: Step, finding: Finding, exhibits: Sequence[Exhibit]) -> list[dict[str, Any]]:
    """The finding's examples, with differences marked if they are shown next to another text."""
    alike = {note.place: note.similarity for note in finding.notes}
    suited = [each for each in exhibits if (each.step, each.reason) == (step, finding.reason)]
    if finding.subject:
        # Only examples whose rows this finding lists: a reason may have several findings.
        suited = [each for each in suited if each.place in alike]
    # A row with two types of personal data is an example of each, and of both.
    suited = list({each.place: each for each in suited}.values())
    pairs = []
    undone = finding.reason == "near_duplicate" and finding.action == "removed"
    for each in suited[: NEAR_SHOWN if undone else SHOWN_EXHIBITS]:
        if step == "paraphrases":
            # Equal words would say little: the reader judges whether the meaning is the same.
            text, other = escape(cut(each.text)), escape(cut(each.other_text))
        elif each.other_text:
            # For a leak, readers want to see what is the same; for near-duplicates, what differs.
            text, other = mark_differences(each.text, each.other_text, shared=step in _LEAKS)
        elif step == "personal_data":
            text, other = mark_placeholders(each.text), Markup("")
        else:
            text, other = escape(cut_middle(each.text) if finding.reason in _ENDS else cut(each.text)), Markup("")
        pair = {
            "place": place_of(report, each.place),
            "other_place": place_of(report, each.other_place) if each.other_place else "",
            "text": text,
            "other": other,
            "alike": _percent(alike.get(each.place)),
            "stayed": step == "duplicates" and finding.action == "removed",
            "looks": step == "duplicates" and bool(each.other_text) and same_but_for_looks(each.text, each.other_text),
        }
        # Quoted: YAML would read some ids as numbers.
        pairs.append({**pair, "undo": f'duplicates: {{keep: ["{each.row_id}"]}}' if undone and each.row_id else ""})
    return pairs


def row_ranges(rows: Iterable[int]) -> str:
    """Row numbers for people: ``[3, 4, 5, 9]`` is ``3–5, 9``."""
    ranges: list[list[int]] = []
    for row in sorted(set(rows)):
        if ranges and row == ranges[-1][1] + 1:
            ranges[-1][1] = row
        else:
            ranges.append([row, row])
    return ", ".join(f"{low:,}" if low == high else f"{low:,}–{high:,}" for low, high in ranges)


def short(name: str) -> str:
    """A name for the page; a very long one is cut in the middle."""
    return name if len(name) <= _NAME else f"{name[: _NAME // 2]}…{name[-_NAME // 2 :]}"
