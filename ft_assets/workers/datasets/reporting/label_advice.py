"""Warnings about labels: spelt in several ways, too rare to be learned, or so frequent that they need no learning."""

from collections.abc import Iterator, Sequence

from ft_assets.workers.datasets.reporting.report import DatasetReport, Labels

_NAMED = 5
_MOSTLY = 0.5
_IMBALANCE = 10


def label_warnings(report: DatasetReport) -> Iterator[str]:
    """Sentences with their advice; none if the answers are not labels."""
    labels = report.labels
    if labels is None:
        return
    if labels.alike:
        groups = [" and ".join(f"{label!r} ({count:,})" for label, count in group.items()) for group in labels.variants]
        is_one = labels.alike == 1
        yield (
            f"{labels.alike:,} {'label is' if is_one else 'labels are'} spelt in several ways, which differ only in "
            f"case, spaces or punctuation: {_few(groups, labels.alike)}. Each spelling is learned as a label of its "
            f"own. Write {'it' if is_one else 'each'} in one way."
        )
    if labels.single:
        is_one = labels.single == 1
        yield (
            f"{labels.single:,} {'label has' if is_one else 'labels have'} a single row "
            f"({_few([repr(label) for label in labels.once], labels.single)}), which is too few to learn "
            f"{'it' if is_one else 'them'} and to measure. Add rows, or take {'it' if is_one else 'them'} out."
        )
    yield from _balance(labels)


def _balance(labels: Labels) -> Iterator[str]:
    (most, many), *others = labels.counts.items()
    # Other warnings name labels of a single row, and second spellings.
    named = {*labels.once, *(label for group in labels.variants for label in list(group)[1:])}
    rarest, few = next(((label, count) for label, count in reversed(others) if label not in named), (most, many))
    if many > _IMBALANCE * few:
        yield (
            f"The labels are uneven: {most!r} has {many:,} rows, and {rarest!r} {few:,}, which the model will hardly "
            "learn. Add rows of the rare ones."
        )
    if many >= _MOSTLY * labels.rows:
        yield (
            f"{most!r} is the answer of {many:,} of {labels.rows:,} rows: always saying it is right in "
            f"{many / labels.rows:.0%}. Compare scores with that."
        )


def _few(names: Sequence[str], count: int) -> str:
    shown = names[:_NAMED]
    return "; ".join(shown) + (f"; and {count - len(shown):,} more" if count > len(shown) else "")
