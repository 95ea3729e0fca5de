"""Workers that outlive our processes, as their launcher lists them."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A worker that outlives our processes, as its launcher lists it.

    Args:
        uid: differs for each Job, even of one attempt.
        address: what it makes; empty if it does not say.
        label: partition key of the work.
        created_at: seconds since the epoch; None if not known.
        ended: whether its worker has exited.
        removing: whether it is being removed already.
    """

    uid: str
    address: str
    attempt: int
    label: str = ""
    created_at: float | None = None
    ended: bool = False
    removing: bool = False
