"""The answers of base and candidate to the same holdout rows, from a report's samples."""

from dataclasses import dataclass
from pathlib import Path

from ft_assets.settings.catalogue.forms import FormName
from ft_assets.workers.evals.holdout_rows import question_of, read_records, turns_before_question
from ft_assets.workers.evals.samples import ITEM_ID, parse_samples

_NEEDED = ("target", "base_answer", "candidate_answer", "base_correct", "candidate_correct")


@dataclass(frozen=True, kw_only=True, slots=True)
class BothAnswers:
    """A row's last question, its right answer and both models' answers; ``…_right``: whether an answer equals it;
    ``before``: role and text of the turns before the question."""

    before: tuple[tuple[str, str], ...]
    question: str
    target: str
    base: str
    candidate: str
    base_right: bool
    candidate_right: bool


def both_answers(samples: bytes, holdout: Path, form: FormName, *, most: int) -> list[BothAnswers]:
    """At most ``most`` rows, starting with those that one model answers rightly; [] if no answers were asked for.

    Args:
        samples: the report's ``samples/holdout.parquet``.
        holdout: the split with these rows.
    """
    columns = parse_samples(samples, "samples/holdout.parquet")
    if not columns.keys() >= set(_NEEDED):
        return []
    rows = zip(columns[ITEM_ID], *(columns[name] for name in _NEEDED), strict=True)
    ordered = sorted(rows, key=lambda row: bool(row[4]) == bool(row[5]))[:most]
    wanted = {row[0] for row in ordered}
    asked = {each["id"]: each["messages"] for each in read_records(holdout, form) if each["id"] in wanted}
    return [
        BothAnswers(
            before=turns_before_question(asked[item]) if item in asked else (),
            question=question_of(asked[item]) if item in asked else "",
            target=str(target),
            base=str(base),
            candidate=str(candidate),
            base_right=bool(was),
            candidate_right=bool(now),
        )
        for item, target, base, candidate, was, now in ordered
    ]
