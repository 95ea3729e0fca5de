"""Whether a curated upload is good enough to train on: what rejects it, and what holds it for a person to review."""

import math
from collections.abc import Iterable

from ft_assets.settings.dataset.policy import MIN_EXAMPLES, DatasetPolicy
from ft_assets.workers.datasets.forms.reasons import Reason
from ft_assets.workers.datasets.intake.file_refusals import SAVE_AS_UTF8
from ft_assets.workers.datasets.reporting.advice import all_warnings, split_advice
from ft_assets.workers.datasets.reporting.bad_fields import field_and_problem
from ft_assets.workers.datasets.reporting.report import DatasetReport, Finding, Note, Step, rows_found
from ft_resources.errors import BadData

# Above it, what is left is hardly what the upload was meant to be.
_MOST_DROPPED = 0.5
_SIDES = ("train", "validation", "holdout")
_HELD: dict[Step, str] = {
    "contamination": "hold items, or mostly text, of tests that the model is measured on",
    "paraphrases": "ask what tests ask, in other words",
    "own_holdout": "share most of {their} 13-word sequences with {holdout}",
    "personal_data": "hold personal data or secrets",
    "toxicity": "were flagged by the toxicity classifier",
}
_SINGULAR = {"share": "shares", "hold": "holds", "were": "was", "ask": "asks"}
_LEFT_OUT: dict[Step, str] = {
    "duplicates": "duplicates",
    "contamination": "with test items in them",
    "paraphrases": "with paraphrased test items",
    "quality": "filtered by quality",
    "toxicity": "flagged as toxic",
    "split": "that belong with rows set aside",
    "own_holdout": "like rows of the holdout",
    "balance": "left out by balance",
}


def accept(report: DatasetReport, judges: Iterable[str] = ()) -> DatasetReport:
    """``report`` with its warnings, and with the reasons to hold the version added to its own.

    Args:
        report: everything that was counted.
        judges: names of the models that will judge models trained on it, if they are known.

    Raises:
        BadData: the version must not be used; names the file, rows and remedy.
    """
    check_rows(report)
    _check_toxicity(report)
    _check_size(report)
    for side in _SIDES:
        if not report.splits[side].rows:
            raise empty_split(report, side)
    return report.model_copy(
        update={
            "held": [*report.held, *_reasons_to_hold(report)],
            "warnings": [*report.warnings, *all_warnings(report, judges)],
        }
    )


def empty_split(report: DatasetReport, side: str) -> BadData:
    """The error for a split without rows."""
    return BadData(
        f"the {side} split is empty: none of {_units(report)} fell into it",
        where=_files(report),
        remedy=split_advice(report, side),
    )


def check_rows(report: DatasetReport) -> None:
    """Raise BadData if there are no rows, or more bad ones than the policy allows."""
    policy, bad = report.policy, report.bad_count
    if not report.rows_read:
        raise BadData("the file has no rows", where=_files(report), remedy="Upload a file with examples in it.")
    if not bad or (policy.on_bad_row == "drop" and bad <= policy.max_dropped_share * report.rows_read):
        return
    notes = _bad_rows(report)
    first = notes[0]
    field, problem = field_and_problem(first.detail, policy)
    place = f"row {first.place.row}" + (f", {field}" if field else "")
    if policy.on_bad_row == "drop":
        raise BadData(
            f"{bad} of {report.rows_read} rows are bad, more than max_dropped_share ({policy.max_dropped_share:g}) "
            f"allows; the first is {place}: {problem}",
            where=_files(report),
            remedy=_drop(report),
        )
    raise BadData(
        problem + _others(report, notes),
        where=f"{first.place.file}, {place}",
        remedy=SAVE_AS_UTF8 if first in _not_utf8(report) else _drop(report),
    )


def _drop(report: DatasetReport) -> str:
    """The line that leaves out all bad rows, whatever their share."""
    bad, share = report.bad_count, report.bad_count / report.rows_read
    correct = "Correct the row" if bad == 1 else "Correct the rows"
    if share > _MOST_DROPPED:
        return f"{correct}: {share:.0%} of the rows are bad."
    lines = {} if report.policy.on_bad_row == "drop" else {"on_bad_row": "drop"}
    if share > report.policy.max_dropped_share:
        lines["max_dropped_share"] = f"{math.ceil(100 * share) / 100:g}"
    said = [f"{name}: {value}" for name, value in lines.items()]
    line = f"{{{', '.join(said)}}}" if len(said) > 1 and report.policy == DatasetPolicy() else "\n".join(said)
    leave = "leave it out" if bad == 1 else f"leave out all {bad:,} bad ones ({share:.1%})"
    return f"{correct}, or {leave}: put this into dataset.yaml, and give it with `--policy dataset.yaml`:\n{line}"


def _not_utf8(report: DatasetReport) -> list[Note]:
    """Rows that should not just be dropped: in an older encoding, such bytes are all over the file."""
    found = [finding for finding in report.findings("read") if finding.reason == Reason.NOT_UTF8]
    return [note for finding in found for note in finding.notes]


def _bad_rows(report: DatasetReport) -> list[Note]:
    """The bad rows that are listed, in the order of the uploads."""
    order = {upload.name: index for index, upload in enumerate(report.uploads)}
    removed = (finding for finding in report.findings("read") if finding.action == "removed")
    notes = [note for finding in removed for note in finding.notes]
    return sorted(notes, key=lambda note: (order.get(note.place.file, 0), note.place.row))


def _others(report: DatasetReport, notes: list[Note]) -> str:
    """How many further rows are bad, and the next three: their numbers, with their files if one is of another file."""
    count = report.bad_count - 1
    if not count:
        return ""
    places = [note.place for note in notes[1:4]]
    same = all(place.file == notes[0].place.file for place in places)
    named = ", ".join(str(place.row) if same else f"row {place.row} of {place.file}" for place in places)
    named += ", …" if count > len(places) else ""
    return f" ({count} more bad {'row' if count == 1 else 'rows'}{': ' + named if named else ''})"


def _check_toxicity(report: DatasetReport) -> None:
    settings = report.policy.toxicity
    if settings is None or settings.action != "reject":
        return
    findings = report.findings("toxicity")
    count = _total(findings)
    looked_at = next(step.rows_in for step in report.steps if step.step == "toxicity") if findings else 0
    if count <= settings.max_share * looked_at:
        return
    first = next((note.place for finding in findings for note in finding.notes), None)
    raise BadData(
        f"{count} of {looked_at} examples were flagged by {settings.classifier} ({', '.join(settings.labels)}), more "
        f"than max_share ({settings.max_share:g}) allows" + (f"; the first is {first}" if first else ""),
        where=_files(report),
        remedy="Take them out, or have them left out with `action: remove` under toxicity in dataset.yaml.",
    )


def _check_size(report: DatasetReport) -> None:
    if report.examples >= MIN_EXAMPLES:
        return
    bad = report.bad_count
    less = [f"{bad} bad"] if bad else []
    for step, words in _LEFT_OUT.items():
        count = _total(finding for finding in report.findings(step) if finding.action == "removed")
        if count:
            less.append(f"{count} {words}")
    raise BadData(
        too_few(report.examples, report.rows_read, less),
        where=_files(report),
        remedy=f"Add examples: at least {MIN_EXAMPLES} different ones are needed.",
    )


def too_few(examples: int, rows: int, less: list[str]) -> str:
    """A sentence that ``examples`` are too few; ``less`` says why the others of ``rows`` are missing."""
    subject = "1 example is" if examples == 1 else f"{examples} different examples are"
    others = f" ({rows} rows, of which {_and(less)})" if less else ""
    return f"{subject} too few to learn from and to measure on{others}"


def _reasons_to_hold(report: DatasetReport) -> list[str]:
    """One sentence for each step that requires a person's review."""
    reasons = []
    for step, words in _HELD.items():
        held = [finding for finding in report.findings(step) if finding.action == "held"]
        if held:
            # Only in this step a row can have several findings.
            rows, exact = rows_found(held) if step == "personal_data" else (_total(held), True)
            at_least = "" if exact else "At least "
            subjects = sorted({finding.subject for finding in held if finding.subject})
            named = f" ({', '.join(subjects)})" if subjects else ""
            verb, rest = words.split(" ", 1)
            subject = f"row {_SINGULAR[verb]}" if rows == 1 else f"rows {verb}"
            rest = rest.format(their="its" if rows == 1 else "their", holdout=report.holdout)
            reasons.append(f"{at_least}{rows:,} {subject} {rest}{named}.")
    return reasons


def _total(findings: Iterable[Finding]) -> int:
    return sum(finding.count for finding in findings)


def _and(parts: list[str]) -> str:
    return " and ".join(part for part in (", ".join(parts[:-1]), parts[-1]) if part)


def _files(report: DatasetReport) -> str:
    """The file, or the first of several files."""
    names = [upload.name for upload in report.uploads]
    more = len(names) - 1
    return names[0] + (f" and {more} more {'file' if more == 1 else 'files'}" if more else "")


def _units(report: DatasetReport) -> str:
    settings = report.policy.split
    groups = sum(numbers.groups for numbers in report.splits.values())
    if 0 < groups < report.examples and not settings.group_by:
        return f"the {groups} units (sections of a text, or prompts) of the {report.examples} examples"
    if settings.group_by:
        return f"the {groups} {'group' if groups == 1 else 'groups'} ({settings.group_by})"
    return f"the {report.examples} examples"
