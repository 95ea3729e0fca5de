"""How the traffic of a line is divided, and which adapter answers a user."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from ft_assets.control.lines.lines import LineState, read_line
from ft_assets.control.rollouts.rollouts import WHOLE, RolloutState, read_rollouts
from ft_assets.records.tombstones import require_alive
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import CorruptArtifact, Deleted
from ft_resources.store import Store

Weights = Sequence[tuple[str, int]]
"""Addresses of adapters with percents that sum to 100, a rollout's candidate first. Empty: nothing is in production."""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """The division of a line's traffic.

    Args:
        weights: which adapters answer.
        shadow: percent of the requests that are copied to the candidate, which then has the weight 0.
    """

    weights: Weights
    shadow: int = 0


def traffic_of(store: Store, line: str) -> Traffic:
    """The present division of the traffic to ``line``. Raises CorruptArtifact for a log that was tampered with."""
    rollouts = read_rollouts(store, line)
    weights = divide(read_line(store, line), rollouts, lambda address: _is_deleted(store, address))
    going = rollouts.open
    is_copied = len(weights) > 1 and going is not None and going.last.shadowing
    return Traffic(weights=weights, shadow=going.last.plan.shadow if going is not None and is_copied else 0)


def weights_of(store: Store, line: str) -> Weights:
    """How the traffic to ``line`` is divided now. Raises as ``traffic_of``."""
    return traffic_of(store, line).weights


def divide(line: LineState, rollouts: RolloutState, is_deleted: Callable[[str], bool]) -> Weights:
    """As ``weights_of``. A candidate has traffic only beside the incumbent that it is compared with, and while it may
    be served."""
    standing = line.at("production")
    if standing is None:
        return ()
    production, going = standing.adapter.address, rollouts.open
    if going is None or going.last.incumbent.address != production:
        return ((production, WHOLE),)
    candidate = going.last.candidate.address
    if candidate in line.archived | line.deprecated or is_deleted(candidate):
        return ((production, WHOLE),)
    return ((candidate, going.last.weight), (production, WHOLE - going.last.weight))


def choose(weights: Weights, user: str) -> str:
    """The address of the adapter that answers ``user``; ``weights`` must not be empty.

    A user keeps the candidate while its weight rises: each user has a fixed place between 0 and 1, and the candidate
    answers those below its weight. Another candidate gives them other places. Pure.
    """
    first, weight = weights[0]
    return first if is_within(first, user, weight) else weights[-1][0]


def is_within(candidate: str, user: str, percent: int) -> bool:
    """Whether ``user`` is among the first ``percent`` of those to whom the candidate is given. So who is copied in the
    shadow stage is among the first who are answered by it later. Pure."""
    place = int.from_bytes(sha256(f"{candidate}\n{user}".encode()).digest()[:8]) / 2**64
    return place < percent / WHOLE


def _is_deleted(store: Store, address: str) -> bool:
    """Whether the adapter is gone, or a tombstone covers it or what it was made of. A damaged one restores nothing."""
    try:
        adapter = Artifacts(store).find(Address.parse(address))
        if adapter is None:
            return True
        require_alive(store, adapter)
    except (Deleted, CorruptArtifact):
        return True
    return False
