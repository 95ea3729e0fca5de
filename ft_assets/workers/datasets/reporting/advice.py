"""Warnings: sentences for the tenant, each with its advice."""

from collections.abc import Iterable, Iterator

from ft_assets.records.model_families import judge_family_warning
from ft_assets.workers.datasets.forms.reasons import Reason
from ft_assets.workers.datasets.reporting.label_advice import label_warnings
from ft_assets.workers.datasets.reporting.report import Action, DatasetReport, Place, Step

# Below this many rows, a single row changes a score by over ten points.
SMALL_SPLIT = 10
_MUCH_DUPLICATED = 0.2
_DOMINANT_GROUP = 0.5
_OTHER_LANGUAGES = 0.1
_IMBALANCE = 10
_MUCH_FLAGGED = 0.01
_NAME = 60
_FEW = 3
_UNDETERMINED = "und"

_FLAGGED = {
    "empty_answer": "have an empty answer; the model would learn to answer nothing",
    "short": "have an answer of fewer characters than min_answer_characters ({quality.min_answer_characters})",
    "long": "are longer than max_characters ({quality.max_characters}); what exceeds the recipe's length is cut off",
    "repetitive": "have an answer that repeats itself, which models learn readily",
    "truncated": "have a truncated answer; the model would learn to stop early",
}


def all_warnings(report: DatasetReport, judges: Iterable[str] = ()) -> list[str]:
    """Every warning about ``report``, the most important first."""
    found = [
        *_small_splits(report),
        *_contamination(report),
        *_held_out(report),
        *_personal_data(report),
        *_duplicates(report),
        *_flagged(report),
        *_languages(report),
        *_balance(report),
        *label_warnings(report),
        *pictures(report),
        *unanswered(report.unanswered),
        *_shape(report),
    ]
    judge = judge_family_warning(report.policy.generated_by, judges)
    return [*found, *([judge] if judge else []), *_general(report)]


def pictures(report: DatasetReport) -> Iterator[str]:
    """What was not read of documents with pictures: a sentence for each of a few, one for all of many."""
    found = [upload for upload in report.uploads if upload.pictures]
    if len(found) > _FEW:
        total = sum(upload.pictures for upload in found)
        named = ", ".join(f"{upload.name:.{_NAME}}" for upload in found[:_FEW])
        yield (
            f"{total:,} pictures in {len(found):,} files are left out ({named}, …); only the text is trained on. Put "
            "into words what it needs."
        )
        return
    for upload in found:
        are = "1 picture is" if upload.pictures == 1 else f"{upload.pictures:,} pictures are"
        yield f"{upload.name:.{_NAME}}: {are} left out; only its text is trained on. Put into words what it needs."


def unanswered(count: int) -> Iterator[str]:
    """That ``count`` conversations end with a turn without an answer, which is left out."""
    if count:
        are = "1 conversation ends" if count == 1 else f"{count:,} conversations end"
        yield f"{are} with a turn of the user, which is left out, as only answers are learned. All before it is used."


def split_advice(report: DatasetReport, side: str) -> str:
    """The change in dataset.yaml that gives the split ``side`` (more) rows."""
    settings = report.policy.split
    if side != "train" and any(upload.role == side for upload in report.uploads):
        return f"Add rows to the {side} file."
    if side == "train":
        share = f"Lower split.validation ({settings.validation:g}) or split.holdout ({settings.holdout:g})"
    else:
        share = f"Raise split.{side} ({getattr(settings, side):g})"
    if settings.group_by:
        return f"{share}, or set split.group_by ({settings.group_by}) to a field with more different values."
    return f"{share} in dataset.yaml, or add examples."


def _small_splits(report: DatasetReport) -> Iterator[str]:
    for side, numbers in report.splits.items():
        if numbers.rows < SMALL_SPLIT:
            yield (
                f"The {side} split has only {_rows(numbers.rows)}; results on so few rows are unreliable. "
                f"{split_advice(report, side)}"
            )


def _contamination(report: DatasetReport) -> Iterator[str]:
    removed, stayed = _count(report, "contamination", "removed"), _count(report, "contamination", "warned")
    if removed:
        yield (
            f"{_rows(removed)} {_have(removed)} text of public tests and {_were(removed)} left out. Look at "
            "where they come from: other rows of that source may paraphrase test answers."
        )
    if stayed:
        yield (
            f"{_rows(stayed)} {_have(stayed)} text of public tests and stayed in. Scores on these tests will "
            "be inflated; set contamination.action to remove."
        )
    own = _count(report, "own_holdout", "warned") + _count(report, "own_holdout", "removed")
    if own:
        yield (
            f"{_rows(own)} {'repeats' if own == 1 else 'repeat'} text of {report.holdout}. Where rows come from one "
            "document or conversation, name the field that says so in split.group_by."
        )


def _held_out(report: DatasetReport) -> Iterator[str]:
    lost = sum(finding.count for finding in report.findings("split") if finding.reason == Reason.HELD_OUT)
    if lost:
        yield (
            f"{_rows(lost)} {_were(lost)} left out: the holdout of an earlier version held the same or nearly "
            "the same, and the draw of this version would not hold them out."
        )


def _personal_data(report: DatasetReport) -> Iterator[str]:
    if report.policy.personal_data.action == "detect" and (total := sum(report.personal_data.values())):
        types = ", ".join(f"{count:,} {name}" for name, count in sorted(report.personal_data.items()) if count)
        yield (
            f"{total:,} {'piece' if total == 1 else 'pieces'} of personal data or secrets stayed in the texts "
            f"({types}), and a model can repeat what it learned. Set personal_data.action to scrub to put "
            "placeholders in their place."
        )


def _duplicates(report: DatasetReport) -> Iterator[str]:
    removed, stayed = _count(report, "duplicates", "removed"), _count(report, "duplicates", "warned")
    if removed > _MUCH_DUPLICATED * report.rows_read:
        yield (
            f"{removed / report.rows_read:.0%} of the rows repeat an earlier row and were left out. Repeating "
            "examples to increase their weight has no effect here."
        )
    if stayed:
        yield (
            f"{_rows(stayed)} {_are(stayed)} nearly the same as an earlier row and stayed in, on one side of "
            "the split. They have more weight than others; set duplicates.near to remove if this is not "
            "intended."
        )


def _flagged(report: DatasetReport) -> Iterator[str]:
    for finding in report.findings("quality"):
        words = _FLAGGED.get(finding.reason)
        if finding.action != "warned" or words is None or not finding.count:
            continue
        share = finding.count / max(report.rows_read, 1)
        first = f", the first is {_place(report, finding.notes[0].place)}" if finding.notes else ""
        much = f" ({share:.0%})" if share >= _MUCH_FLAGGED else ""
        verb = words.format(quality=report.policy.quality)
        if finding.count == 1:
            verb = verb.replace("have ", "has ", 1).replace("are ", "is ", 1)
            first = first.replace(", the first is", ",", 1)
        them = "it" if finding.count == 1 else "them"
        yield (
            f"{_rows(finding.count)}{much} {verb}{first}. Correct {them}, or have {them} left out by adding "
            f"{finding.reason} to quality.filter."
        )


def _languages(report: DatasetReport) -> Iterator[str]:
    known = {name: count for name, count in report.languages.items() if name != _UNDETERMINED and count}
    total = sum(known.values())
    if not total:
        return
    expected = report.policy.quality.language
    main = expected or max(known, key=lambda name: (known[name], name))
    others = total - known.get(main, 0)
    if others <= (0 if expected else _OTHER_LANGUAGES * total) or others / total < 0.005:
        return
    most = sorted((item for item in known.items() if item[0] != main), key=lambda item: (-item[1], item[0]))[:3]
    named = ", ".join(f"{name} {count / total:.0%}" for name, count in most)
    if expected:
        yield (
            f"{others / total:.0%} of the examples looked at are not in the expected language {expected} ({named}). "
            "Take them out, or correct quality.language."
        )
    else:
        yield (
            f"The examples are in several languages: {main} {known[main] / total:.0%}, {named}. If only one is meant, "
            "take the others out; if all are, see that each has enough rows."
        )


def _balance(report: DatasetReport) -> Iterator[str]:
    settings = report.policy.balance
    if settings and _count(report, "balance", "warned"):
        advice = (
            "Name the field that holds it in split.group_by, or set balance.by to kind."
            if settings.by == "group"
            else "Name the field that holds it under fields ({kind: …}), or take balance out of dataset.yaml."
        )
        yield f"No training row has a {settings.by}, which balance was to go by, so nothing was balanced. {advice}"


def _shape(report: DatasetReport) -> Iterator[str]:
    if len(report.forms) > 1:
        yield f"The rows come in {len(report.forms)} forms ({', '.join(report.forms)}). Was this intended?"
    if report.largest_group_rows > _DOMINANT_GROUP * report.examples:
        yield (
            f"One value of {report.policy.split.group_by!r} holds {report.largest_group_rows / report.examples:.0%} of "
            "the rows, so the split's shares are far from those asked for. Group by a finer field."
        )
    train = report.splits.get("train")
    kinds = {kind: count for kind, count in (train.kinds if train else {}).items() if kind and count}
    if len(kinds) > 1:
        (most, many), (least, few) = max(kinds.items(), key=_size), min(kinds.items(), key=_size)
        most, least = most[:_NAME], least[:_NAME]
        if many > _IMBALANCE * few:
            advice = "" if report.policy.balance else " Add rows of the rare ones, or set balance in dataset.yaml."
            yield (
                f"The training rows are uneven: {many:,} of kind {most!r}, but {few:,} of {least!r}, which the model "
                f"will hardly learn.{advice}"
            )


def _general(report: DatasetReport) -> Iterator[str]:
    if report.form in ("chat", "text") and not any(each.purpose == "general" for each in report.mixed):
        yield (
            "No general data is mixed in, so the model may lose some of what it can do now. 5 to 10 % of general "
            "examples keep most of it: name a dataset under mix in dataset.yaml."
        )


def _count(report: DatasetReport, step: Step, action: Action) -> int:
    return sum(finding.count for finding in report.findings(step) if finding.action == action)


def _place(report: DatasetReport, place: Place) -> str:
    return str(place) if len(report.uploads) > 1 else f"row {place.row:,}"


def _size(item: tuple[str, int]) -> tuple[int, str]:
    return item[1], item[0]


def _rows(count: int) -> str:
    return f"{count:,} {'row' if count == 1 else 'rows'}"


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
