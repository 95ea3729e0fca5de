"""The result of a step of the automation: sensors run one at each tick, and show it."""

from dataclasses import dataclass

from ft_assets.records.submissions import Submission


@dataclass(frozen=True, kw_only=True)
class Step:
    """The result of a step that looked at the whole store, or at the next part of it.

    Args:
        said: what was looked at and done, and what could not be read, in one line.
        worked: how many things changed.
        log: a line for each of them.
        warnings: a line for what went wrong and held up nothing else.
        submitted: what was recorded, and has no run yet.
        after: where the next step goes on; "" for the beginning.
    """

    said: str
    worked: int = 0
    log: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    submitted: tuple[Submission, ...] = ()
    after: str = ""
