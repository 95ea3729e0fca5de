"""How a worker can end, and the one table of what follows each ending."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Refund = Literal["none", "full", "flagged"]
"""Flagged: billed until a person decides."""


class Outcome(StrEnum):
    """Each ending has one exit code (``EXIT_CODES``); anything else, a signal included, counts as PREEMPTED."""

    DONE = "done"
    PREEMPTED = "preempted"
    OUT_OF_MEMORY = "out_of_memory"
    DIVERGED = "diverged"
    BAD_DATA = "bad_data"
    USER_ERROR = "user_error"
    PLATFORM_ERROR = "platform_error"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    RESIZED = "resized"


EXIT_CODES: dict[Outcome, int] = {
    Outcome.DONE: 0,
    Outcome.USER_ERROR: 64,
    Outcome.BAD_DATA: 65,
    Outcome.PLATFORM_ERROR: 70,
    Outcome.PREEMPTED: 75,
    Outcome.OUT_OF_MEMORY: 77,
    Outcome.DIVERGED: 78,
    Outcome.CANCELLED: 79,
    # No worker ends with it: only a launcher notices a time limit.
    Outcome.TIMED_OUT: 80,
    Outcome.RESIZED: 81,
}


STOP_GRACE_S = 120.0


def grace_s(save_s: float) -> float:
    """Grace period of a worker that is asked to stop, if its save is expected to take ``save_s`` seconds."""
    return max(STOP_GRACE_S, 2 * save_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """What follows an ending: further attempts of the op, seconds before the next, and who pays.

    ``growth``: each further delay is this many times the one before. ``halves``: the next attempt has half the
    micro-batch; a micro-batch that cannot be halved is not tried again.
    """

    retries: int
    backoff_s: float = 0.0
    growth: float = 1.0
    halves: bool = False
    refund: Refund
    message: str

    def delay_s(self, ended: int) -> float:
        """Seconds before the next attempt, after ``ended`` attempts (from 1) that ended so."""
        return float(self.backoff_s * self.growth ** (ended - 1))


POLICIES: dict[Outcome, Policy] = {
    Outcome.DONE: Policy(retries=0, refund="none", message="finished"),
    Outcome.PREEMPTED: Policy(
        retries=20,
        backoff_s=0.5,
        refund="full",
        message="was stopped externally; it resumes from its last save",
    ),
    # The tenant chose the sizes. Where the platform expected them to fit, it is refunded (``metering/usage.py``).
    Outcome.OUT_OF_MEMORY: Policy(retries=1, halves=True, refund="flagged", message="ran out of memory"),
    Outcome.DIVERGED: Policy(retries=0, refund="none", message="diverged; lower the learning rate"),
    Outcome.BAD_DATA: Policy(retries=0, refund="none", message="found invalid data"),
    Outcome.USER_ERROR: Policy(retries=0, refund="none", message="found an error in the request"),
    # A machine or registry that cannot run it now may be able to a little later.
    Outcome.PLATFORM_ERROR: Policy(
        retries=2, backoff_s=2.0, growth=5.0, refund="full", message="failed because of the platform"
    ),
    Outcome.CANCELLED: Policy(retries=0, refund="none", message="was cancelled"),
    Outcome.TIMED_OUT: Policy(retries=0, refund="none", message="reached its time limit"),
    # The platform asked for it, and at most once a minute.
    Outcome.RESIZED: Policy(
        retries=1000, refund="none", message="was stopped to continue from its save with another number of GPUs"
    ),
}


def outcome_of_exit(code: int | None) -> Outcome:
    """The ending for an exit code: unknown codes and signals (negative) mean killed from outside."""
    for outcome, known in EXIT_CODES.items():
        if known == code:
            return outcome
    return Outcome.PREEMPTED
